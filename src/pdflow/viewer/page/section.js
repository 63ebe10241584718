/** The part of the scene's cube that is shown: a slab for each cut axis, a box if all are cut.
 *
 * slabs  axis, position from 0 to 1 along the extent of the clouds, and thickness as the exponent of
 *        ten of the share of that extent
 *
 * The result also says where each slab is and how thick, in the cloud's unit.
 */
export function makeSection(scene, slabs) {
  const section = { low: [-1, -1, -1], high: [1, 1, 1], slabs: [] };
  for (const { axis, position, thickness } of slabs) {
    const k = "xyz".indexOf(axis);
    const low = Math.min(...scene.clouds.map(({ focus }) => focus[k] - focus[4 + k]));
    const high = Math.max(...scene.clouds.map(({ focus }) => focus[k] + focus[4 + k]));
    const extent = Math.max(high - low, 1e-4);
    const middle = low + position * extent;
    const half = (10 ** thickness * extent) / 2;
    section.low[k] = middle - half;
    section.high[k] = middle + half;
    const place = scene.center[k] + middle * scene.side;
    section.slabs.push({ axis, place, width: 2 * half * scene.side });
  }
  return section;
}
