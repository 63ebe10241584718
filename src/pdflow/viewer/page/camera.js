import { add, clamp, length, scale, viewProjection } from "./math.js";

const TANGENT = Math.tan((40 / 2) * (Math.PI / 180)); // of half the field of view
const STEEPEST = Math.PI / 2 - 1e-3;

// Where the axes of a cloud with z up go if another axis is up.
const TURNS = {
  x: ([a, b, c]) => [c, a, b],
  y: ([a, b, c]) => [a, c, -b],
  z: (vector) => vector,
};

/** A camera that turns around a target. Lengths are shares of the side of the scene's cube. */
export class Camera {
  constructor(focus) {
    this.axis = "z";
    this.fit(focus);
    this.yaw = 0.6;
    this.pitch = 0.4;
  }

  /** See all of the focus: centre and radius. */
  fit(focus) {
    this.focus = focus;
    this.target = focus.slice(0, 3);
    this.distance = (0.9 * focus[3]) / Math.sin(Math.atan(TANGENT));
  }

  basis() {
    const [cy, sy] = [Math.cos(this.yaw), Math.sin(this.yaw)];
    const [cp, sp] = [Math.cos(this.pitch), Math.sin(this.pitch)];
    const turn = TURNS[this.axis];
    return {
      right: turn([cy, sy, 0]),
      up: turn([-sp * sy, sp * cy, cp]),
      back: turn([cp * sy, -cp * cy, sp]),
    };
  }

  orbit(right, up) {
    this.yaw = (this.yaw + right) % (2 * Math.PI);
    this.pitch = clamp(this.pitch + up, -STEEPEST, STEEPEST);
  }

  /** Shift the picture by shares of its height. */
  pan(right, up) {
    const { right: across, up: along } = this.basis();
    const height = 2 * TANGENT * this.distance;
    this.target = add(this.target, scale(across, -right * height));
    this.target = add(this.target, scale(along, -up * height));
  }

  zoom(factor) {
    this.distance = clamp(this.distance * factor, 1e-4, 50);
  }

  /** What drawing needs, for a picture of this width over height. */
  look(aspect) {
    const basis = this.basis();
    const eye = add(this.target, scale(basis.back, this.distance));
    const reach = length(this.target) + Math.sqrt(3) / 2;
    const far = this.distance + reach;
    const near = Math.max(this.distance - reach, far / 2000);
    // On a tall screen the width decides how much is seen.
    const tangent = TANGENT / Math.min(1, aspect);
    return {
      matrix: viewProjection(basis, eye, tangent, aspect, near, far),
      near,
      far,
      tangent,
    };
  }

  /** The camera as text for an address, and back; text that is damaged changes nothing. */
  get words() {
    const numbers = [this.yaw, this.pitch, this.distance, ...this.target];
    return `camera=${numbers.map((value) => Number(value.toPrecision(7))).join(",")}&up=${this.axis}`;
  }

  set words(words) {
    const fields = new URLSearchParams(words);
    const numbers = (fields.get("camera") ?? "").split(",").map(Number);
    if (numbers.length !== 6 || !numbers.every(Number.isFinite)) return;
    this.axis = fields.get("up") in TURNS ? fields.get("up") : "z";
    [this.yaw, this.pitch, this.distance] = numbers;
    this.target = numbers.slice(3);
    this.orbit(0, 0);
    this.zoom(1);
  }
}
