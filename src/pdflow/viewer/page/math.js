// Vectors are arrays of three numbers, matrices Float32Arrays of 16 in column order.

export function add(a, b) {
  return [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
}

export function subtract(a, b) {
  return [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
}

export function scale(a, factor) {
  return [a[0] * factor, a[1] * factor, a[2] * factor];
}

export function dot(a, b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

export function length(a) {
  return Math.hypot(a[0], a[1], a[2]);
}

export function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}

/** Projection and view in one: world to clip coordinates. */
export function viewProjection(basis, eye, tangent, aspect, near, far) {
  const { right, up, back } = basis;
  const rows = [
    [...scale(right, 1 / (tangent * aspect)), -dot(right, eye) / (tangent * aspect)],
    [...scale(up, 1 / tangent), -dot(up, eye) / tangent],
  ];
  const depth = [...back, -dot(back, eye)];
  const a = (far + near) / (near - far);
  const b = (2 * far * near) / (near - far);
  rows.push(depth.map((value, k) => a * value + (k === 3 ? b : 0)));
  rows.push(depth.map((value) => -value));
  const matrix = new Float32Array(16);
  rows.forEach((row, i) => row.forEach((value, k) => (matrix[4 * k + i] = value)));
  return matrix;
}

/** A point in clip coordinates: four numbers. */
export function transform(matrix, point) {
  return [0, 1, 2, 3].map(
    (i) =>
      matrix[i] * point[0] + matrix[4 + i] * point[1] + matrix[8 + i] * point[2] + matrix[12 + i],
  );
}

/** A number for people, with decimals that resolve a thousandth of a span. */
export function textWithin(value, span) {
  if (value === 0) return "0";
  const digits = Math.ceil(3 - Math.log10(span));
  return digits > 12 ? text(value) : value.toFixed(Math.max(0, digits));
}

/** A number for people: four significant digits. */
export function text(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}
