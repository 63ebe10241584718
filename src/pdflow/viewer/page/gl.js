/** A program with its uniforms by name. */
export function makeProgram(gl, { vertex, fragment }) {
  const program = gl.createProgram();
  const sources = [
    [gl.VERTEX_SHADER, vertex],
    [gl.FRAGMENT_SHADER, fragment],
  ];
  for (const [kind, source] of sources) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) {
      throw new Error(`A shader does not compile: ${gl.getShaderInfoLog(shader)}`);
    }
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  const places = {};
  const count = gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS);
  for (let i = 0; i < count; i++) {
    const { name } = gl.getActiveUniform(program, i);
    places[name] = gl.getUniformLocation(program, name);
  }
  return { program, places };
}

/** A texture of bytes that is read texel by texel. */
export function makeTexture(gl, format, width, height, bytes) {
  const kinds = {
    color: [gl.RGBA8, gl.RGBA, gl.UNSIGNED_BYTE],
    depth: [gl.DEPTH_COMPONENT24, gl.DEPTH_COMPONENT, gl.UNSIGNED_INT],
  };
  const texture = gl.createTexture();
  gl.bindTexture(gl.TEXTURE_2D, texture);
  const [internal, layout, type] = kinds[format];
  gl.texImage2D(gl.TEXTURE_2D, 0, internal, width, height, 0, layout, type, bytes);
  for (const name of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) {
    gl.texParameteri(gl.TEXTURE_2D, name, gl.NEAREST);
  }
  for (const name of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) {
    gl.texParameteri(gl.TEXTURE_2D, name, gl.CLAMP_TO_EDGE);
  }
  return texture;
}

/** A picture to draw into, with its depths. */
export class Target {
  constructor(gl) {
    this.gl = gl;
    this.buffer = gl.createFramebuffer();
    this.width = this.height = 0;
  }

  resize(width, height) {
    if (width === this.width && height === this.height) return;
    const { gl } = this;
    gl.deleteTexture(this.color ?? null);
    gl.deleteTexture(this.depth ?? null);
    this.color = makeTexture(gl, "color", width, height, null);
    this.depth = makeTexture(gl, "depth", width, height, null);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.buffer);
    const attach = (point, texture) =>
      gl.framebufferTexture2D(gl.FRAMEBUFFER, point, gl.TEXTURE_2D, texture, 0);
    attach(gl.COLOR_ATTACHMENT0, this.color);
    attach(gl.DEPTH_ATTACHMENT, this.depth);
    [this.width, this.height] = [width, height];
  }

  /** Make it the picture that is drawn into, and empty it. */
  begin() {
    const { gl } = this;
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.buffer);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
  }
}
