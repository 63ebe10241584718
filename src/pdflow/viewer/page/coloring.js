import { MODES } from "./shaders.js";

const AXES = { x: 0, y: 1, z: 2 };
const FIRST = ["colors", "height", "intensity", "classification", "displacement", "uncertainty", "error"];
const NAMES = { colors: "own colour", error: "error against clean" };

/** Names of everything that some cloud can be coloured by, the usual ones first. */
export function colorings(scene) {
  const found = new Set(scene.clouds.flatMap((cloud) => cloud.channels.map(({ name }) => name)));
  found.add("height");
  const usual = FIRST.filter((name) => found.has(name));
  return [...usual, ...[...found].filter((name) => !FIRST.includes(name)).sort(), "plain"];
}

export function coloringName(name) {
  return NAMES[name] ?? name.replaceAll("_", " ");
}

/** What a coloring means for all clouds: kind, and for values the shown range and the unit. */
export function describeColoring(scene, name, up) {
  if (name === "plain") return { kind: "plain" };
  if (name === "height") return { kind: "height", shown: heightRange(scene, up), unit: scene.unit };
  const channels = scene.clouds.flatMap((cloud) => cloud.channels.filter((c) => c.name === name));
  const [{ kind, unit }] = channels;
  if (kind === "rgb") return { kind };
  if (kind === "classes") {
    return { kind, classes: Object.assign({}, ...channels.map((c) => c.classes)) };
  }
  const low = Math.min(...channels.map((c) => c.shown[0]));
  const high = Math.max(...channels.map((c) => c.shown[1]));
  return { kind: "scalar", shown: [low, high > low ? high : low + 1], unit };
}

function heightRange(scene, up) {
  const axis = AXES[up];
  const low = Math.min(...scene.clouds.map(({ focus }) => focus[axis] - focus[4 + axis]));
  const high = Math.max(...scene.clouds.map(({ focus }) => focus[axis] + focus[4 + axis]));
  const middle = scene.center[axis];
  return [middle + low * scene.side, middle + (high > low ? high : low + 1e-6) * scene.side];
}

/** The shader's numbers for one cloud; a cloud without the channel is drawn plain. */
export function shaderColoring(scene, cloud, name, up) {
  const { kind, shown } = describeColoring(scene, name, up);
  if (kind === "plain") return { mode: MODES.plain };
  if (kind === "height") {
    const axis = AXES[up];
    const span = shown[1] - shown[0];
    const toHeight = [0, 0, 0].map((_, k) => (k === axis ? 1 : 0));
    const toRamp = [scene.side / span, (scene.center[axis] - shown[0]) / span];
    return { mode: MODES.height, toHeight, toRamp };
  }
  const channel = cloud.channels.find((c) => c.name === name);
  if (!channel) return { mode: MODES.plain };
  if (channel.kind === "rgb") return { mode: MODES.rgb, channel };
  if (channel.kind === "classes") {
    return { mode: MODES.classes, channel, toClass: [channel.low - 1, 0] };
  }
  // The attribute is code / top; code 1 is `low`, code `top` is `high`.
  const perCode = (channel.high - channel.low) / (channel.top - 1);
  const span = shown[1] - shown[0];
  const toRamp = [(channel.top * perCode) / span, (channel.low - perCode - shown[0]) / span];
  return { mode: MODES.scalar, channel, toRamp };
}
