const data = JSON.parse(document.getElementById("data").textContent);

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

const ms = (x, digits = 2) => x === null || x === undefined ? "–" : x.toFixed(Math.abs(x) >= 100 ? 1 : digits);
const pct = x => x === null || x === undefined ? "–" : `${(100 * x).toFixed(1)} %`;
const gb = x => x === null || x === undefined ? "–" : `${(x / 1e9).toFixed(2)} GB`;
const times = x => x === null || x === undefined ? "–" : `${x.toFixed(2)} ×`;
const shorten = (text, most = 90) => text.length <= most ? text : `${text.slice(0, most * 2 / 3)}…${text.slice(-most / 3)}`;
// A demangled kernel name without what only fills the line.
function kernelName(name) {
  if (name.length > 2000) name = name.slice(0, 2000);
  return shorten(name.replace(/^void /, "").replace(/at::native::(\(anonymous namespace\)::)?/g, "").replace(/\((?:[^()]|\([^()]*\))*\)(?:::\{lambda.*)?$/, ""), 110);
}

const navigation = document.querySelector("header nav");
function section(id, title, note) {
  const node = el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), note ? el("p", { class: "note" }, note) : null);
  document.querySelector("main").append(node);
  navigation.append(el("a", { href: `#${id}` }, title));
  return node;
}

// A table that sorts by its headers and is searched by a box above it. Columns: {name, get, show, text, long}.
function table(columns, rows, { search = false, caption, sort = null, onPick = null, limit = 300 } = {}) {
  const body = el("tbody");
  let order = sort, wanted = "", shown = limit;
  const heads = columns.map((column, i) => {
    const button = el("button", { type: "button" }, column.name);
    const head = el("th", { scope: "col", class: column.text ? "text" : null }, button);
    button.addEventListener("click", () => {
      order = order && order[0] === i ? [i, -order[1]] : [i, column.text ? 1 : -1];
      draw();
    });
    return head;
  });
  const rest = el("p", { class: "note" });
  function draw() {
    heads.forEach((head, i) => order && order[0] === i ? head.setAttribute("aria-sort", order[1] > 0 ? "ascending" : "descending") : head.removeAttribute("aria-sort"));
    let list = wanted ? rows.filter(row => columns.some(c => c.text && String(c.get(row)).toLowerCase().includes(wanted))) : rows.slice();
    if (order) {
      const { get } = columns[order[0]];
      const value = x => x === null || x === undefined ? -Infinity : x;
      list.sort((a, b) => { const x = value(get(a)), y = value(get(b)); return (x < y ? -1 : x > y ? 1 : 0) * order[1]; });
    }
    body.replaceChildren(...list.slice(0, shown).map(row => {
      const line = el("tr", onPick ? { class: "linked", tabindex: 0 } : {}, columns.map(c => {
        const shownAs = c.show ? c.show(row) : c.get(row);
        return el("td", { class: [c.text ? "text" : "", c.long ? "long" : ""].join(" ").trim() || null, title: c.long ? shorten(String(c.get(row)), 600) : null }, shownAs === null || shownAs === undefined ? "–" : shownAs);
      }));
      if (onPick) {
        line.addEventListener("click", () => onPick(row));
        line.addEventListener("keydown", event => { if (event.key === "Enter") onPick(row); });
      }
      return line;
    }));
    rest.textContent = list.length > shown ? `${list.length - shown} more` : "";
    if (list.length > shown) rest.append(" ", el("button", { class: "tool", type: "button", on: { click: () => { shown = list.length; draw(); } } }, "show all"));
  }
  draw();
  const out = el("div");
  if (search) out.append(el("div", { class: "tools" }, el("input", { type: "search", placeholder: `search ${caption || ""}`, "aria-label": `search ${caption || "table"}`, on: { input: event => { wanted = event.target.value.toLowerCase(); draw(); } } })));
  out.append(el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption || "table" }, el("table", {}, caption ? el("caption", { style: { position: "absolute", left: "-9999px" } }, caption) : null, el("thead", {}, el("tr", {}, heads)), body)), rest);
  return out;
}
const bar = (share, colour) => el("span", { class: "bar", style: { width: `${Math.max(0, Math.min(1, share)) * 6}rem`, background: colour || "" }, "aria-hidden": "true" });
