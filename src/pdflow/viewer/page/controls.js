const TURN = 2.6; // radians for a drag over the height of the view
const KEY_TURN = 0.09;
const KEY_PAN = 0.04;
const KEY_ZOOM = 0.88;
const STILL = 6; // pixels that a finger may move in a tap

/** Mouse, touch and keys on the canvas: turn, shift, zoom, tap. */
export function addControls(canvas, camera, { moved, tapped, doubleTapped, pressed }) {
  const fingers = new Map();
  let travelled = 0;

  canvas.addEventListener("contextmenu", (event) => event.preventDefault());

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    if (fingers.size === 0) travelled = 0;
    else travelled = Infinity; // a second finger makes no tap
    fingers.set(event.pointerId, place(event));
  });

  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const after = place(event);
    const height = canvas.clientHeight;
    const [dx, dy] = [(after.x - before.x) / height, (after.y - before.y) / height];
    travelled += Math.hypot(after.x - before.x, after.y - before.y);
    if (fingers.size === 1) {
      if (event.buttons & 6 || event.shiftKey) camera.pan(dx, -dy);
      else camera.orbit(-TURN * dx, TURN * dy);
    } else if (fingers.size === 2) {
      const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const spread = (at) => Math.max(10, Math.hypot(at.x - other.x, at.y - other.y));
      camera.zoom(spread(before) / spread(after));
      camera.pan(dx / 2, -dy / 2); // the other finger brings the other half
    }
    fingers.set(event.pointerId, after);
    if (travelled > STILL) moved();
  });

  const lift = (event) => {
    if (fingers.delete(event.pointerId) && event.type === "pointerup") {
      if (fingers.size === 0 && travelled <= STILL && event.button === 0) {
        tapped(event.offsetX, event.offsetY);
      }
    }
  };
  canvas.addEventListener("pointerup", lift);
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("dblclick", (event) => doubleTapped(event.offsetX, event.offsetY));

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const pixels = event.deltaY * [1, 30, 300][event.deltaMode];
      camera.zoom(Math.exp(Math.max(-300, Math.min(300, pixels)) * 0.0015));
      moved();
    },
    { passive: false },
  );

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = keyAction(event, camera);
    if (!action) return;
    action();
    event.preventDefault();
    moved();
  });

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input, select, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || (typing && event.target.type !== "range")) {
      return;
    }
    if (pressed(event.key.toLowerCase())) event.preventDefault();
  });
}

function place(event) {
  return { x: event.clientX, y: event.clientY };
}

function keyAction(event, camera) {
  const go = (right, up) => () =>
    event.shiftKey
      ? camera.pan(-KEY_PAN * right, -KEY_PAN * up)
      : camera.orbit(KEY_TURN * right, KEY_TURN * up);
  return {
    ArrowLeft: go(-1, 0),
    ArrowRight: go(1, 0),
    ArrowUp: go(0, 1),
    ArrowDown: go(0, -1),
    "+": () => camera.zoom(KEY_ZOOM),
    "=": () => camera.zoom(KEY_ZOOM),
    "-": () => camera.zoom(1 / KEY_ZOOM),
    Home: () => camera.fit(camera.focus),
    0: () => camera.fit(camera.focus),
  }[event.key];
}
