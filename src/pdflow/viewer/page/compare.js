import { clamp } from "./math.js";

const KEY_STEP = 0.02;

/** The swipe line: drag it, or move it with the arrow keys. */
export function addSwipe(line, stage, state, changed) {
  const move = (share) => {
    state.swipe = clamp(share, 0, 1);
    changed();
  };
  line.addEventListener("pointerdown", (event) => line.setPointerCapture(event.pointerId));
  line.addEventListener("pointermove", (event) => {
    if (!line.hasPointerCapture(event.pointerId)) return;
    const box = stage.getBoundingClientRect();
    move((event.clientX - box.left) / box.width);
  });
  line.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    const ends = { Home: 0, End: 1 }[event.key];
    if (steps === undefined && ends === undefined) return;
    event.preventDefault();
    move(ends ?? state.swipe + steps * KEY_STEP);
  });
}

/** Show what is compared: the line, and the names of the clouds where they are seen. */
export function showCompare(state, scene, { line, beforeName, afterName }) {
  const two = scene.clouds.length > 1;
  const percent = Math.round(100 * state.swipe);
  line.hidden = !two || state.compare !== "swipe";
  line.style.left = `${100 * state.swipe}%`;
  line.setAttribute("aria-valuenow", percent);
  line.setAttribute("aria-valuetext", `${percent} % before`);
  beforeName.textContent = scene.clouds[state.before].name;
  afterName.textContent = scene.clouds[state.after].name;
  beforeName.hidden = state.compare === "after";
  afterName.hidden = !two || state.compare === "before";
}
