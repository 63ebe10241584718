import { showFacts, showReport } from "./facts.js";
import { cancel, denoise, forget, getState, openExample, sendFile } from "./requests.js";

const PERIOD = 300; // milliseconds between two questions about a job
const BUSY = ["receiving", "waiting", "working"];

const find = (id) => document.getElementById(id);
const settings = JSON.parse(find("data").textContent);

/** What is open: its key, the version that the viewer shows, and an upload that can be stopped. */
const open = { key: null, version: 0, upload: null, turn: 0 };

function say(sentence) {
  find("error").textContent = sentence;
}

/** Do something that asks the app; what goes wrong is said on the page. */
async function attempt(action) {
  say("");
  try {
    await action();
  } catch (error) {
    if (error.status === 404) leave();
    setBusy(false);
    say(error.message);
  }
}

function setBusy(busy, step = "", share = null) {
  find("work").hidden = !busy;
  find("options").disabled = busy;
  find("open").disabled = busy;
  find("step").textContent = step;
  if (share === null) find("progress").removeAttribute("value");
  else find("progress").value = share;
  document.documentElement.dataset.busy = busy ? "yes" : "no";
}

/** Open what `arrive` brings to the app; it gives the new key. */
async function openCloud(arrive) {
  const before = open.key;
  setBusy(true, "opening");
  const { key } = await arrive();
  leave();
  open.key = key;
  history.replaceState(null, "", `#${key}`); // a reloaded page finds its cloud again
  if (before) forget(before).catch(() => {});
  await follow();
}

function openFile(file) {
  if (!file) return;
  attempt(async () => {
    const suffix = /\.[^.]*$/.exec(file.name.toLowerCase())?.[0] ?? "";
    if (file.size > settings.limit && settings.suffixes.includes(suffix)) {
      const [size, limit] = [file.size, settings.limit].map((bytes) => Math.round(bytes / 1e6));
      throw new Error(
        `${file.name} has ${size} MB and the limit is ${limit} MB: start pdflow app with a higher --limit.`,
      );
    }
    await openCloud(() => {
      const drop = find("drop-nonfinite").checked;
      open.upload = sendFile(file, drop, (share) => setBusy(true, "sending", share));
      return open.upload.arrived.finally(() => (open.upload = null));
    });
  });
}

/** Forget what is shown. */
function leave() {
  open.key = null;
  open.version = 0;
  for (const id of ["facts", "denoise-form", "result", "viewer"]) find(id).hidden = true;
  find("empty").hidden = false;
  history.replaceState(null, "", location.pathname);
}

/** Ask for the state of the open cloud until nothing happens to it any more. */
async function follow() {
  const turn = ++open.turn;
  const { key } = open;
  while (turn === open.turn) {
    const state = await getState(key);
    if (turn !== open.turn) return;
    show(state);
    if (!BUSY.includes(state.state)) return;
    await new Promise((done) => setTimeout(done, PERIOD));
  }
}

function show(state) {
  const busy = BUSY.includes(state.state);
  const step = state.ahead ? `waiting, ${state.ahead} ahead` : state.step;
  setBusy(busy, step, busy && state.share > 0 ? state.share : null);
  if (!busy) say(state.error);
  if (state.state === "failed") {
    leave();
    return;
  }
  if (!state.facts) return;
  find("facts").hidden = find("denoise-form").hidden = false;
  find("cloud-name").textContent = state.name;
  showFacts(find("facts").querySelector("dl"), state.facts);
  find("result").hidden = !state.result;
  if (state.result) showResult(state);
  if (state.version !== open.version) showCloud(state);
}

function showResult(state) {
  showReport(find("result").querySelector("dl"), state.result, state.facts.unit);
  find("warnings").replaceChildren(
    ...state.warnings.map((words) => Object.assign(document.createElement("li"), { textContent: words })),
  );
  find("download").href = `clouds/${open.key}/result`;
  find("download").textContent = `Download ${state.resultName}`;
  find("download-page").href = `clouds/${open.key}/page`;
}

/** Show the newest version in the viewer, from the same place as the one before. */
function showCloud(state) {
  const frame = find("viewer");
  const camera = open.version ? frame.contentWindow.location.hash : "";
  open.version = state.version;
  frame.hidden = false;
  find("empty").hidden = true;
  frame.src = `clouds/${open.key}/view/${state.version}/${camera}`;
  if (state.result) find("result").scrollIntoView({ block: "nearest" });
  find("status").textContent = state.result ? "Before and after are shown." : `${state.name} is shown.`;
}

function readOptions() {
  const value = (id) => find(id).value.trim();
  const [passes, noise] = [value("iterations"), value("noise")];
  return {
    mode: value("mode"),
    iterations: passes === "auto" ? passes : Number(passes),
    outliers: value("outliers"),
    noise: noise === "" ? "auto" : Number.isNaN(Number(noise)) ? noise : Number(noise),
  };
}

/** Files may be dropped anywhere, on the viewer, too. */
function takeDrops(target) {
  target.addEventListener("dragover", (event) => {
    event.preventDefault();
    document.body.classList.add("dragging");
  });
  target.addEventListener("dragleave", () => document.body.classList.remove("dragging"));
  target.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("dragging");
    if (!find("open").disabled) openFile(event.dataTransfer.files[0]);
  });
}

/** The theme is chosen in the viewer; the page around it follows. */
function followTheme(root) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    document.documentElement.dataset.theme = root?.dataset.theme ?? (dark.matches ? "dark" : "light");
  };
  apply();
  if (root) new MutationObserver(apply).observe(root, { attributeFilter: ["data-theme"] });
  else dark.addEventListener("change", apply);
}

function start() {
  followTheme(null);
  takeDrops(document);
  find("file").accept = settings.suffixes.join(",");
  find("choose").addEventListener("click", () => find("file").click());
  find("file").addEventListener("change", () => {
    openFile(find("file").files[0]);
    find("file").value = "";
  });
  find("example").addEventListener("click", () => attempt(() => openCloud(openExample)));
  find("denoise-form").addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async () => {
      setBusy(true, "waiting");
      await denoise(open.key, readOptions());
      await follow();
    });
  });
  find("cancel").addEventListener("click", () => {
    if (open.upload) open.upload.abort();
    else if (open.key) attempt(async () => show(await cancel(open.key)));
  });
  find("viewer").addEventListener("load", () => {
    const inside = find("viewer").contentDocument;
    takeDrops(inside);
    followTheme(inside.documentElement);
  });
  const key = location.hash.slice(1);
  setBusy(false);
  if (/^[\w-]+$/.test(key)) {
    open.key = key;
    attempt(follow);
  }
  document.documentElement.dataset.ready = "yes";
}

start();
