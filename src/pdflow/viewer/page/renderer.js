import { shaderColoring } from "./coloring.js";
import { makeProgram, makeTexture, Target } from "./gl.js";
import { IDS, POINTS, SCREEN } from "./shaders.js";

const CLOSING = 1.3; // diameter of a point over the spacing of points, so that surfaces look closed
const LARGEST = 48; // diameter in CSS pixels
const PICK = 15; // edge of the square around the pointer in which a point is searched
const STRENGTH = 0.035;

/** Draws up to two clouds and mixes them on the screen. */
export class Renderer {
  constructor(canvas, scene) {
    const gl = canvas.getContext("webgl2", { antialias: false, alpha: false });
    if (!gl) throw new Error("This browser has no WebGL2: update it, or allow it to use the GPU.");
    Object.assign(this, { canvas, scene, gl, buffers: new Map(), ratio: 1 });
    this.points = makeProgram(gl, POINTS);
    this.ids = makeProgram(gl, IDS);
    this.screen = makeProgram(gl, SCREEN);
    this.targets = [new Target(gl), new Target(gl)];
    this.pickTarget = new Target(gl);
    this.colors = makeTexture(gl, "color", 256, 2, colorTexels(scene));
    this.empty = gl.createVertexArray();
    this.vertices = gl.createVertexArray();
  }

  /** Match the canvas to its place on the page. */
  resize() {
    const { canvas } = this;
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(canvas.clientWidth * this.ratio));
    const height = Math.max(1, Math.round(canvas.clientHeight * this.ratio));
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
    for (const target of this.targets) target.resize(width, height);
  }

  get aspect() {
    return this.canvas.width / this.canvas.height;
  }

  /** Draw the state; `budget` is the most points drawn of a cloud. */
  draw(state, camera, budget) {
    this.resize();
    const { gl, canvas } = this;
    const look = camera.look(this.aspect);
    const weights = shownWeights(state);
    gl.enable(gl.DEPTH_TEST);
    gl.viewport(0, 0, canvas.width, canvas.height);
    [state.before, state.after].forEach((index, side) => {
      if (weights[side] === 0) return;
      this.targets[side].begin();
      this.drawCloud(index, state, camera, look, budget);
    });
    this.mix(state, look, weights);
  }

  drawCloud(index, state, camera, look, budget) {
    const { gl, scene } = this;
    const cloud = scene.clouds[index];
    const count = Math.min(cloud.count, budget);
    const coloring = shaderColoring(scene, cloud, state.color, camera.axis);
    const { places } = this.begin(this.points, cloud, state, look, count);
    gl.uniform1i(places.mode, coloring.mode);
    gl.uniform2fv(places.toRamp, coloring.toRamp ?? [1, 0]);
    gl.uniform3fv(places.toHeight, coloring.toHeight ?? [0, 0, 0]);
    gl.uniform2fv(places.toClass, coloring.toClass ?? [0, 0]);
    gl.uniform3fv(places.plain, state.theme.plain);
    gl.uniform3fv(places.missing, state.theme.missing);
    this.bindTexture(places.colors, 0, this.colors);
    gl.disableVertexAttribArray(1);
    gl.disableVertexAttribArray(2);
    const { channel } = coloring;
    if (channel) {
      const isColor = channel.kind === "rgb";
      this.bindAttribute(isColor ? 1 : 2, channel, channel.values(), isColor ? 3 : 1, isColor ? 4 : 1);
    }
    gl.drawArrays(gl.POINTS, 0, count);
  }

  /** Set what both programs for points share. */
  begin(program, cloud, state, look, count) {
    const { gl, canvas, ratio } = this;
    gl.useProgram(program.program);
    gl.bindVertexArray(this.vertices);
    const thinning = Math.min(3, Math.sqrt(cloud.count / count));
    const pixels = canvas.height / (2 * look.tangent); // per unit at distance 1
    const diameter = CLOSING * cloud.spacing * state.size * thinning * pixels;
    gl.uniformMatrix4fv(program.places.matrix, false, look.matrix);
    gl.uniform3fv(program.places.sectionLow, state.section.low);
    gl.uniform3fv(program.places.sectionHigh, state.section.high);
    gl.uniform1f(program.places.diameter, diameter);
    gl.uniform2f(program.places.diameters, 1.5 * ratio, LARGEST * ratio);
    this.bindAttribute(0, cloud, cloud.positions, 3, 4);
    return program;
  }

  bindAttribute(location, owner, values, width, stride) {
    const { gl, buffers } = this;
    if (!buffers.has(owner)) {
      buffers.set(owner, gl.createBuffer());
      gl.bindBuffer(gl.ARRAY_BUFFER, buffers.get(owner));
      gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    }
    gl.bindBuffer(gl.ARRAY_BUFFER, buffers.get(owner));
    const size = values.BYTES_PER_ELEMENT;
    const type = size === 1 ? gl.UNSIGNED_BYTE : gl.UNSIGNED_SHORT;
    gl.enableVertexAttribArray(location);
    gl.vertexAttribPointer(location, width, type, true, size * stride, 0);
  }

  bindTexture(place, unit, texture) {
    const { gl } = this;
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.uniform1i(place, unit);
  }

  mix(state, look, weights) {
    const { gl, canvas, screen, targets } = this;
    const { places } = screen;
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.disable(gl.DEPTH_TEST);
    gl.useProgram(screen.program);
    gl.bindVertexArray(this.empty);
    this.bindTexture(places.beforeColor, 0, targets[0].color);
    this.bindTexture(places.beforeDepth, 1, targets[0].depth);
    this.bindTexture(places.afterColor, 2, targets[1].color);
    this.bindTexture(places.afterDepth, 3, targets[1].depth);
    gl.uniform3fv(places.background, state.theme.background);
    gl.uniform2f(places.clip, look.near, look.far);
    gl.uniform1f(places.pixel, (2 * look.tangent) / canvas.height);
    gl.uniform1f(places.reach, 1.5 * this.ratio);
    gl.uniform1f(places.strength, state.shading ? STRENGTH : 0);
    gl.uniform1f(places.line, state.compare === "swipe" ? state.swipe * canvas.width : -1);
    gl.uniform1f(places.blend, weights[1]);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  /** Wait until the picture is drawn, so that the time it takes can be measured. */
  finish() {
    const { gl } = this;
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
  }

  /** The point nearest to a place on the page: cloud and index, or null. */
  pick(state, camera, x, y) {
    const { gl, canvas, ratio } = this;
    const index = sideAt(state, x / canvas.clientWidth) === 0 ? state.before : state.after;
    const cloud = this.scene.clouds[index];
    this.pickTarget.resize(PICK, PICK);
    this.pickTarget.begin();
    gl.enable(gl.DEPTH_TEST);
    const middle = (PICK - 1) / 2;
    const left = Math.round(x * ratio);
    const bottom = canvas.height - Math.round(y * ratio);
    gl.viewport(middle - left, middle - bottom, canvas.width, canvas.height);
    this.begin(this.ids, cloud, state, camera.look(this.aspect), cloud.count);
    gl.disableVertexAttribArray(1);
    gl.disableVertexAttribArray(2);
    gl.drawArrays(gl.POINTS, 0, cloud.count);
    const texels = new Uint8Array(4 * PICK * PICK);
    gl.readPixels(0, 0, PICK, PICK, gl.RGBA, gl.UNSIGNED_BYTE, texels);
    const id = nearestId(texels, middle);
    return id === 0 ? null : { cloud: index, point: id - 1 };
  }
}

function colorTexels(scene) {
  const texels = new Uint8Array(256 * 2 * 4).fill(255);
  for (let i = 0; i < 256; i++) {
    for (let k = 0; k < 3; k++) {
      texels[4 * i + k] = scene.ramp[3 * i + k];
      texels[4 * (256 + i) + k] = scene.classColors[(3 * i + k) % scene.classColors.length];
    }
  }
  return texels;
}

/** How much of the clouds before and after is to be seen; in a swipe both are. */
function shownWeights({ compare, blend }) {
  const after = { before: 0, after: 1, blend, swipe: 0.5 }[compare];
  return [1 - after, after];
}

function sideAt({ compare, blend, swipe }, share) {
  if (compare === "swipe") return share < swipe ? 0 : 1;
  return { before: 0, after: 1, blend: blend < 0.5 ? 0 : 1 }[compare];
}

function nearestId(texels, middle) {
  let [best, found] = [Infinity, 0];
  for (let i = 0; i < PICK * PICK; i++) {
    const id = texels[4 * i] | (texels[4 * i + 1] << 8) | (texels[4 * i + 2] << 16);
    const off = Math.hypot((i % PICK) - middle, Math.floor(i / PICK) - middle);
    if (id && off < best) [best, found] = [off, id];
  }
  return found;
}
