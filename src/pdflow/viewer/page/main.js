import { Camera } from "./camera.js";
import { addSwipe, showCompare } from "./compare.js";
import { addControls } from "./controls.js";
import { colorings } from "./coloring.js";
import { loadScene, place } from "./data.js";
import { showLegend } from "./legend.js";
import { Measure } from "./measure.js";
import { Panel } from "./panel.js";
import { Renderer } from "./renderer.js";
import { applyTheme, onSystemTheme } from "./theme.js";

const REST = 160; // milliseconds without a move, after which all points are drawn
const SLOW = 40; // milliseconds of a frame, above which fewer points are drawn
const FAST = 12;
const FEWEST = 30000;
const MOST = 5e7;

const find = (id) => document.getElementById(id);

function firstState(scene) {
  const names = colorings(scene);
  return {
    before: 0,
    after: scene.clouds.length > 1 ? 1 : 0,
    compare: "swipe",
    swipe: 0.5,
    blend: 0.5,
    color: names[0],
    theme: applyTheme(""),
  };
}

/** Draws when something changed: fewer points while the camera moves, all of them at rest. */
class Stage {
  constructor(scene, state, camera, renderer, measure) {
    Object.assign(this, { scene, state, camera, renderer, measure, budget: 500000 });
    this.moving = this.waiting = false;
    this.timer = 0;
  }

  changed() {
    showCompare(this.state, this.scene, {
      line: find("swipe"),
      beforeName: find("before-name"),
      afterName: find("after-name"),
    });
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => this.frame());
  }

  moved() {
    this.moving = true;
    this.renderer.canvas.ariaBusy = "true";
    this.changed();
  }

  rest() {
    this.moving = false;
    this.changed();
    remember(this.camera);
    this.renderer.canvas.ariaBusy = "false";
  }

  frame() {
    this.waiting = false;
    const { camera, renderer } = this;
    const begun = performance.now();
    renderer.draw(this.state, camera, this.moving ? this.budget : Infinity);
    if (this.moving) {
      renderer.finish();
      this.adapt(performance.now() - begun);
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.rest(), REST);
    }
    const { clientWidth, clientHeight } = renderer.canvas;
    this.measure.draw(camera.look(renderer.aspect).matrix, clientWidth, clientHeight);
  }

  adapt(elapsed) {
    if (elapsed > SLOW) this.budget = Math.max(FEWEST, this.budget * Math.max(0.3, SLOW / elapsed));
    if (elapsed < FAST) this.budget = Math.min(MOST, this.budget * 1.2);
  }
}

/** Keep the camera in the address, where an address may be changed. */
function remember(camera) {
  try {
    history.replaceState(null, "", `#${camera.words}`);
  } catch {
    return; // the frame of a notebook has no address of its own
  }
}

async function start() {
  const scene = await loadScene(find("data"), "clouds.bin");
  const state = firstState(scene);
  const canvas = find("view");
  const camera = new Camera(scene.clouds[0].focus);
  camera.words = location.hash.slice(1);
  const renderer = new Renderer(canvas, scene);
  const measure = new Measure(scene, find("marks"), find("readout"));
  const stage = new Stage(scene, state, camera, renderer, measure);

  const pick = (x, y, use) => {
    const found = renderer.pick(state, camera, x, y);
    if (found) use(found);
    stage.changed();
  };
  const actions = {
    changed: () => {
      state.theme = applyTheme(state.themeChoice);
      showLegend(find("legend"), scene, state.color, camera.axis);
      stage.changed();
    },
    fit: () => {
      camera.fit(scene.clouds[0].focus);
      stage.moved();
    },
    clear: () => {
      measure.clear();
      stage.changed();
    },
  };
  const panel = new Panel(find("controls"), scene, state, camera, actions);
  addControls(canvas, camera, {
    moved: () => stage.moved(),
    tapped: (x, y) => pick(x, y, (found) => measure.add(found)),
    doubleTapped: (x, y) =>
      pick(x, y, (found) => {
        camera.target = place(scene.clouds[found.cloud], found.point);
        stage.moved();
      }),
    pressed: (key) => {
      const middle = [canvas.clientWidth / 2 - 1, canvas.clientHeight / 2];
      if (key === "p") pick(...middle, (found) => measure.add(found));
      else if (key === "escape") actions.clear();
      else return panel.press(key);
      return true;
    },
  });
  addSwipe(find("swipe"), find("stage"), state, () => stage.changed());
  onSystemTheme(actions.changed);
  new ResizeObserver(() => stage.changed()).observe(canvas);
  window.addEventListener("hashchange", () => {
    camera.words = location.hash.slice(1);
    find("up").value = camera.axis;
    actions.changed();
  });
  canvas.addEventListener("webglcontextlost", () => {
    find("message").textContent = "The browser took the GPU away: reload the page.";
  });
  find("message").textContent = "";
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  find("message").textContent = error.message;
});
