const WHOLE = { low: [-1, -1, -1], high: [1, 1, 1] };

/** A slab across an axis, in the scene's cube, and its place and thickness in the cloud's unit.
 *
 * position   from 0 to 1 along the extent of the clouds
 * thickness  exponent of ten of the share of that extent
 */
export function makeSection(scene, axis, position, thickness) {
  if (!axis) return WHOLE;
  const k = "xyz".indexOf(axis);
  const low = Math.min(...scene.clouds.map(({ focus }) => focus[k] - focus[4 + k]));
  const high = Math.max(...scene.clouds.map(({ focus }) => focus[k] + focus[4 + k]));
  const extent = Math.max(high - low, 1e-4);
  const middle = low + position * extent;
  const half = (10 ** thickness * extent) / 2;
  const slab = { low: [...WHOLE.low], high: [...WHOLE.high] };
  slab.low[k] = middle - half;
  slab.high[k] = middle + half;
  slab.place = scene.center[k] + middle * scene.side;
  slab.width = 2 * half * scene.side;
  return slab;
}
