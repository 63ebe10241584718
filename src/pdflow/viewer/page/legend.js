import { coloringName, describeColoring } from "./coloring.js";
import { textWithin } from "./math.js";

/** Show what the colours mean. */
export function showLegend(figure, scene, name, up) {
  const { kind, shown, unit, classes } = describeColoring(scene, name, up);
  figure.hidden = !shown && !classes;
  const [caption, ramp, ticks, list] = figure.children;
  const measured = shown && unit ? ` (${unit})` : "";
  caption.textContent = coloringName(name) + measured;
  ramp.hidden = ticks.hidden = !shown;
  list.hidden = kind !== "classes";
  if (shown) {
    ramp.style.background = `linear-gradient(to right, ${rampStops(scene.ramp)})`;
    const [low, high] = shown;
    const numbers = [low, (low + high) / 2, high];
    ticks.replaceChildren(...numbers.map((value) => item(textWithin(value, high - low))));
  }
  if (kind === "classes") {
    list.replaceChildren(...Object.entries(classes).map(([code, label]) => classItem(scene, code, label)));
  }
}

function rampStops(ramp) {
  const rows = Array.from({ length: 18 }, (_, k) => 15 * k);
  return rows.map((row) => `rgb(${[...ramp.slice(3 * row, 3 * row + 3)].join(" ")})`).join(", ");
}

function item(words) {
  const element = document.createElement("li");
  element.textContent = words;
  return element;
}

function classItem(scene, code, label) {
  const row = Number(code) % (scene.classColors.length / 3);
  const patch = document.createElement("span");
  patch.style.background = `rgb(${[...scene.classColors.slice(3 * row, 3 * row + 3)].join(" ")})`;
  const element = item(`${code} ${label}`);
  element.prepend(patch);
  return element;
}
