// Reads what pdflow/viewer/pack.py writes; the layout is described there.

const STEPS = 65535;
const GOLDEN = 0.6180339887;

/** The scene from the page itself, or from beside a served page. */
export async function loadScene(element, name) {
  const inside = element.textContent.trim();
  element.textContent = ""; // the text is large and no longer needed
  const packed = inside ? fromBase64(inside) : await (await request(name)).arrayBuffer();
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return unpack(await new Response(stream).arrayBuffer());
}

async function request(name) {
  const answer = await fetch(name);
  if (!answer.ok) throw new Error(`The clouds could not be loaded (${answer.status}).`);
  return answer;
}

function fromBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

function unpack(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const scene = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const bytes = new Uint8Array(buffer, 4 + size);
  scene.ramp = Uint8Array.from(scene.ramp);
  scene.classColors = Uint8Array.from(scene.classColors);
  for (const cloud of scene.clouds) {
    cloud.order = spreadOrder(cloud.count);
    cloud.positions = decode(bytes, cloud.positions, cloud.order, 4);
    for (const channel of cloud.channels) {
      const stored = channel.data;
      channel.top = 2 ** stored.bits - 1;
      // Most channels are never asked for: decode on first use.
      let values = null;
      channel.values = () =>
        (values ??= decode(bytes, stored, cloud.order, stored.width === 3 ? 4 : 1));
    }
  }
  return scene;
}

/** Rows in an order in which the first ones, however many, cover the whole cloud evenly.
 *
 * Rows lie along a curve through space; steps of the golden ratio along it spread well.
 */
function spreadOrder(count) {
  let step = Math.max(1, Math.round(count * GOLDEN));
  while (commonDivisor(step, count) !== 1) step++;
  const order = new Uint32Array(count);
  for (let i = 0, row = 0; i < count; i++, row = (row + step) % count) order[i] = row;
  return order;
}

function commonDivisor(a, b) {
  while (b) [a, b] = [b, a % b];
  return a;
}

/** An array in the order given, rows `stride` numbers apart so that they are aligned for a GPU. */
function decode(bytes, { offset, width, bits }, order, stride) {
  const count = order.length;
  const total = count * width;
  const rows = new (bits === 8 ? Uint8Array : Uint16Array)(count);
  const result = new rows.constructor(count * stride);
  const mask = 2 ** bits - 1;
  for (let column = 0; column < width; column++) {
    const start = offset + column * count;
    let value = 0;
    for (let i = 0; i < count; i++) {
      const code = bits === 8 ? bytes[start + i] : bytes[start + i] | (bytes[start + total + i] << 8);
      value = (value + ((code >>> 1) ^ -(code & 1))) & mask;
      rows[i] = value;
    }
    for (let i = 0; i < count; i++) result[i * stride + column] = rows[order[i]];
  }
  return result;
}

/** Where a point is, in the scene's cube from -0.5 to 0.5. */
export function place(cloud, index) {
  return [0, 1, 2].map((axis) => cloud.positions[4 * index + axis] / STEPS - 0.5);
}

/** A length or a coordinate of the cube in the unit of the cloud, in float64. */
export function coordinate(scene, share, axis) {
  return scene.center[axis] + share * scene.side;
}

/** The value of a channel at a point; null for "no value". */
export function valueAt(channel, index) {
  const code = channel.values()[index];
  if (code === 0) return null;
  return channel.low + ((code - 1) / (channel.top - 1)) * (channel.high - channel.low);
}
