const data = JSON.parse(document.getElementById("data").textContent);
const summary = data.summary;

// Elements are made from text nodes only: names out of a trace never become markup.
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") for (const [event, call] of Object.entries(value)) node.addEventListener(event, call);
    else if (key === "style") Object.assign(node.style, value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}
function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.flat());
  return node;
}
const svgText = (text, attributes) => svg("text", attributes, String(text));

const known = x => x !== null && x !== undefined;
const ms = (x, digits = 2) => known(x) ? x.toFixed(digits) : "–";
const pct = x => known(x) ? `${(100 * x).toFixed(1)} %` : "–";
const gb = (x, digits = 2) => known(x) ? `${(x / 1e9).toFixed(digits)} GB` : "–";
const times = x => known(x) ? `${x.toFixed(2)} ×` : "–";
const range = (low, high) => `${ms(low)} … ${ms(high)}`;
const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
const shorten = (text, most = 90) => text.length <= most ? text : `${text.slice(0, most * 2 / 3)}…${text.slice(-most / 3)}`;
// A name as a cell of a table shows it; the opened row has all of it.
const cellName = text => shorten(String(text), 90);
// A demangled kernel name without what only fills the line.
function kernelName(name) {
  if (name.length > 2000) name = name.slice(0, 2000);
  return shorten(name.replace(/^void /, "").replace(/at::native::(\(anonymous namespace\)::)?/g, "").replace(/\((?:[^()]|\([^()]*\))*\)(?:::\{lambda.*)?$/, ""), 110);
}

const phases = ["forward", "backward", "optimizer", "communication", "data", "other"];
const colours = phases.map(phase => `var(--${phase})`);
const phaseColour = Object.fromEntries(phases.map((phase, i) => [phase, colours[i]]));

const navigation = document.querySelector("header nav");
function section(id, title, note, link = title) {
  const node = el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), note ? el("p", { class: "note" }, note) : null);
  document.querySelector("main").append(node);
  navigation.append(el("a", { href: `#${id}` }, link));
  return node;
}
// Two sections next to each other where the window is wide enough.
function pair(...nodes) {
  const shown = nodes.filter(Boolean);
  if (shown.length < 2) return;
  const box = el("div", { class: "pair" });
  shown[0].before(box);
  box.append(...shown);
}
const press = (name, title, call) => el("button", { class: "tool", type: "button", title, on: { click: call } }, name);
const details = rows => el("dl", { class: "kv" }, rows.filter(([, value]) => known(value) && value !== "").flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
const legend = entries => el("div", { class: "legend" }, entries.map(([colour, name]) => el("span", {}, el("i", { style: { background: colour } }), name)));
const swatch = colour => el("i", { class: "swatch", style: { background: colour } });
