import { coordinate, place, valueAt } from "./data.js";
import { coloringName } from "./coloring.js";
import { length, scale, subtract, text, textWithin, transform } from "./math.js";

/** Up to two picked points: marks on the picture, coordinates and their distance in words. */
export class Measure {
  constructor(scene, marks, readout) {
    Object.assign(this, { scene, readout, picks: [] });
    [this.line, ...this.circles] = marks.children;
  }

  /** Take a point; the third one starts again. */
  add(pick) {
    if (this.picks.length === 2) this.picks = [];
    const cloud = this.scene.clouds[pick.cloud];
    this.picks.push({ ...pick, at: place(cloud, pick.point) });
    this.say();
  }

  clear() {
    this.picks = [];
    this.say();
  }

  say() {
    const lines = this.picks.flatMap((pick) => this.describe(pick));
    if (this.picks.length === 2) {
      const [a, b] = this.picks.map(({ at }) => at);
      const way = scale(subtract(b, a), this.scene.side);
      lines.push(`distance ${text(length(way))} ${this.scene.unit}`, `along x, y, z: ${way.map(text).join(", ")}`);
    }
    this.readout.textContent = lines.join("\n");
  }

  describe({ cloud: index, point, at }) {
    const cloud = this.scene.clouds[index];
    const { side } = this.scene;
    // Positions are known to 1 / 65535 of the side.
    const numbers = at.map((share, axis) => textWithin(coordinate(this.scene, share, axis), side / 65));
    const values = cloud.channels
      .filter(({ kind }) => kind !== "rgb")
      .map((channel) => [channel, valueAt(channel, point)])
      .filter(([, value]) => value !== null)
      .map(([{ name, unit }, value]) => `${coloringName(name)} ${text(value)}${unit ? ` ${unit}` : ""}`);
    return [`${cloud.name}: ${numbers.join(", ")}`, ...(values.length ? [values.join(", ")] : [])];
  }

  /** Put the marks where the points are in this picture. */
  draw(matrix, width, height) {
    const places = this.picks.map(({ at }) => {
      const [x, y, , w] = transform(matrix, at);
      return { x: ((x / w + 1) / 2) * width, y: ((1 - y / w) / 2) * height, seen: w > 0 };
    });
    this.circles.forEach((circle, i) => {
      circle.classList.toggle("on", Boolean(places[i]?.seen));
      if (places[i]?.seen) set(circle, { cx: places[i].x, cy: places[i].y });
    });
    const both = places.length === 2 && places.every(({ seen }) => seen);
    this.line.classList.toggle("on", both);
    if (both) {
      const [a, b] = places;
      set(this.line, { x1: a.x, y1: a.y, x2: b.x, y2: b.y });
    }
  }
}

function set(element, numbers) {
  for (const [name, value] of Object.entries(numbers)) element.setAttribute(name, value.toFixed(1));
}
