import { coloringName, colorings } from "./coloring.js";
import { text, textWithin } from "./math.js";
import { makeSection } from "./section.js";

const BOX = -0.3; // thickness of a box at first: half of the extent

/** The form beside the picture. It writes into `state` and tells what it changed. */
export class Panel {
  constructor(form, scene, state, camera, actions) {
    Object.assign(this, { form, scene, state, camera, actions });
    this.fields = form.elements;
    this.names = colorings(scene);
    this.fill();
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.read());
    this.fields.fit.addEventListener("click", actions.fit);
    this.fields.clear.addEventListener("click", actions.clear);
    this.read();
  }

  fill() {
    const { scene, state, fields } = this;
    fields.color.append(...this.names.map((name) => new Option(coloringName(name), name)));
    fields.color.value = state.color;
    fields.up.value = this.camera.axis;
    const clouds = () => scene.clouds.map(({ name }, index) => new Option(name, index));
    fields.before.append(...clouds());
    fields.after.append(...clouds());
    [fields.before.value, fields.after.value] = [state.before, state.after];
    find("compare-group").hidden = scene.clouds.length < 2;
    find("sides").hidden = scene.clouds.length < 3;
    find("counts").textContent = scene.clouds.map(countOf).join("\n");
  }

  read() {
    const { state, fields, scene, camera } = this;
    state.compare = scene.clouds.length > 1 ? fields.compare.value : "before";
    state.before = Number(fields.before.value);
    state.after = Number(fields.after.value);
    state.blend = Number(fields.blend.value);
    state.color = fields.color.value;
    state.size = 2 ** Number(fields.size.value);
    state.shading = fields.shading.checked;
    state.section = makeSection(scene, this.slabs());
    state.themeChoice = fields.theme.value;
    camera.axis = fields.up.value;
    this.say();
    this.actions.changed();
  }

  /** The slabs that the form asks for. A box begins large: three thin slabs share few points. */
  slabs() {
    const { fields } = this;
    const axes = fields.section.value;
    if (axes === "xyz" && this.axes !== axes) {
      for (const axis of axes) fields[`thickness-${axis}`].value = BOX;
    }
    this.axes = axes;
    return [...axes].map((axis) => ({
      axis,
      position: Number(fields[`position-${axis}`].value),
      thickness: Number(fields[`thickness-${axis}`].value),
    }));
  }

  say() {
    const { state, scene } = this;
    find("blend-row").hidden = state.compare !== "blend";
    for (const axis of "xyz") find(`slab-${axis}`).hidden = !this.axes.includes(axis);
    output("blend", `${Math.round(100 * state.blend)} % after`);
    output("size", `${text(Number(state.size.toFixed(2)))} ×`);
    for (const { axis, place, width } of state.section.slabs) {
      output(`position-${axis}`, `${textWithin(place, scene.side)} ${scene.unit}`);
      output(`thickness-${axis}`, `${text(width)} ${scene.unit}`);
    }
  }

  /** Answer a key; false if it means nothing here. */
  press(key) {
    const two = this.scene.clouds.length > 1;
    const compare = {
      f: this.state.compare === "before" ? "after" : "before",
      s: "swipe",
      b: "blend",
    }[key];
    if (compare && two) this.fields.compare.value = compare;
    else if (key === "c") {
      const next = (this.names.indexOf(this.state.color) + 1) % this.names.length;
      this.fields.color.value = this.names[next];
    } else return false;
    this.read();
    return true;
  }
}

function find(id) {
  return document.getElementById(id);
}

function output(id, words) {
  document.querySelector(`output[for="${id}"]`).textContent = words;
  find(id).setAttribute("aria-valuetext", words);
}

function countOf({ name, count, total }) {
  const all = total.toLocaleString("en");
  return `${name}: ${count < total ? `${count.toLocaleString("en")} of ${all}` : all} points`;
}
