// A table that sorts by its headers and is searched by a box above it. Columns: {name, get, show, text, long, extra, head}; `extra` ones are
// left out where there is no room, the last one first. `open` gives what a clicked row shows below itself; the row stays where it was clicked.
function table(columns, rows, { search = false, caption, sort = null, open = null, limit = 15 } = {}) {
  const body = el("tbody");
  let order = sort, wanted = "", shown = limit;
  const kind = column => [column.text ? "text" : "", column.long ? "long" : "", column.kind || ""].join(" ").trim().replace(/ +/g, " ") || null;
  const heads = columns.map((column, i) => {
    const button = el("button", { type: "button" }, column.name);
    const head = el("th", { scope: "col", class: kind(column) }, column.name ? button : null, column.head || null);
    button.addEventListener("click", () => {
      order = order && order[0] === i ? [i, -order[1]] : [i, column.text ? 1 : -1];
      draw();
    });
    return head;
  });
  const rest = el("p", { class: "note" });

  function close() {
    body.querySelector("tr.opened")?.remove();
    body.querySelector("tr[aria-expanded=true]")?.setAttribute("aria-expanded", "false");
  }
  function toggle(line, row) {
    const was = line.getAttribute("aria-expanded") === "true";
    close();
    if (was) return;
    line.setAttribute("aria-expanded", "true");
    line.after(el("tr", { class: "opened" }, el("td", { colspan: columns.length, class: "text" }, el("div", { role: "status", "aria-live": "polite" }, open(row)))));
  }
  function line(row) {
    const out = el("tr", open ? { class: "linked", tabindex: 0, "aria-expanded": "false" } : {}, columns.map(c => {
      const said = c.show ? c.show(row) : c.get(row);
      return el("td", { class: kind(c) }, known(said) ? said : "–");
    }));
    if (open) {
      out.addEventListener("click", () => toggle(out, row));
      out.addEventListener("keydown", event => {
        if (event.target === out && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); toggle(out, row); }
      });
    }
    return out;
  }
  function draw() {
    heads.forEach((head, i) => order && order[0] === i ? head.setAttribute("aria-sort", order[1] > 0 ? "ascending" : "descending") : head.removeAttribute("aria-sort"));
    const list = wanted ? rows.filter(row => columns.some(c => c.text && String(c.get(row)).toLowerCase().includes(wanted))) : rows.slice();
    if (order) {
      const { get } = columns[order[0]];
      const value = x => known(x) ? x : -Infinity;
      list.sort((a, b) => { const x = value(get(a)), y = value(get(b)); return (x < y ? -1 : x > y ? 1 : 0) * order[1]; });
    }
    body.replaceChildren(...list.slice(0, shown).map(line));
    rest.textContent = list.length > shown ? `${list.length - shown} more` : "";
    if (list.length > shown) rest.append(" ", press("show all", "every row", () => { shown = list.length; draw(); }));
    fit();
  }
  const frame = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption || "table" },
    el("table", {}, caption ? el("caption", { class: "unseen" }, caption) : null, el("thead", {}, el("tr", {}, heads)), body));
  const hide = (i, how) => { for (const row of [heads[0].parentNode, ...body.children]) if (!row.classList.contains("opened")) row.cells[i].hidden = how; };
  function fit() {
    columns.forEach((column, i) => { if (column.extra) hide(i, false); });
    if (!frame.clientWidth) return;
    for (let i = columns.length - 1; i > 0 && frame.scrollWidth > frame.clientWidth + 1; --i) if (columns[i].extra) hide(i, true);
  }
  new ResizeObserver(fit).observe(frame);
  draw();
  const out = el("div");
  if (search) {
    const type = event => { wanted = event.target.value.toLowerCase(); draw(); };
    out.append(el("div", { class: "tools" }, el("input", { type: "search", placeholder: `search ${caption || ""}`, "aria-label": `search ${caption || "table"}`, on: { input: type } })));
  }
  out.append(frame, rest);
  return out;
}

// Several tables in one place. Parts: {name: [rows, columns, open]}; empty ones are left out.
function tabbed(node, label, parts, first) {
  const names = Object.keys(parts).filter(n => parts[n][0] && parts[n][0].length);
  const tabs = el("div", { class: "tabs", role: "tablist", "aria-label": label }), panel = el("div", { role: "tabpanel" });
  const show = name => {
    for (const button of tabs.children) {
      const mine = button.dataset.name === name;
      button.setAttribute("aria-selected", String(mine));
      button.tabIndex = mine ? 0 : -1;
    }
    const [rows, columns, open] = parts[name];
    panel.replaceChildren(table(columns, rows, { caption: name, search: rows.length > 6, open }));
  };
  for (const name of names) {
    const button = el("button", { class: "tool", type: "button", role: "tab" }, `${name} (${parts[name][0].length})`);
    button.dataset.name = name;
    button.addEventListener("click", () => show(name));
    button.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { const next = tabs.children[(names.indexOf(name) + step + names.length) % names.length]; next.focus(); next.click(); }
    });
    tabs.append(button);
  }
  node.append(tabs, panel);
  if (names.length) show(names.includes(first) ? first : names[0]);
}

// A bar in a column of bars: as long as its share of the longest one. Parts: [value, colour].
function bar(parts, longest) {
  const width = value => `${100 * Math.max(0, value || 0) / (longest || 1)}%`;
  return el("span", { class: "bar", "aria-hidden": "true" }, parts.filter(([value]) => value > 0).map(([value, colour]) => el("i", { style: { width: width(value), background: colour } })));
}
const bars = (name, rows, parts, head = null) => {
  const total = row => parts(row).reduce((sum, [value]) => sum + (value || 0), 0), longest = Math.max(0, ...(rows || []).map(total));
  return { name, get: total, show: row => bar(parts(row), longest), kind: "bars", head };
};
