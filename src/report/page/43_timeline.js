// A timeline in a node: its tools, the canvas, what is selected below it. `job`: the ranks it is of. Panels zoom together, or each for itself.
// Returns what fills it: load(head, lines).
function timelineView(node, { id, label, job = null }) {
  const v = { job, purposes: job ? purposesOf(job) : [], head: null, lines: [], lengths: [], panels: [], top: 0, tall: 0, gutter: 0, linked: true, cpu: false, critical: false, changed: false, picked: null, matches: null, colour: {}, canvas: null };
  const box = el("input", { type: "search", placeholder: "kernel, operation or layer", "aria-label": `search ${label}` }), found = el("span", { class: "note", role: "status" });
  const toggle = (key, name, title, after = draw) => el("button", { class: "tool", type: "button", title, "aria-pressed": String(v[key]), on: { click: event => { v[key] = !v[key]; event.target.setAttribute("aria-pressed", String(v[key])); after(); } } }, name);
  const canvas = v.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": `${label}; arrow keys move, plus and minus zoom, Enter selects the task in the middle` });
  const stage = el("div", { class: "stage", id: `${id}-stage` }, canvas), picked = el("div", { class: "picked", id: `${id}-picked`, role: "status", "aria-live": "polite" }, "Loading …");
  const link = toggle("linked", "zoom together", "one axis for both timelines, or one each", relink), changed = toggle("changed", "what changed", "green is shorter, red longer or removed, blue new"), cpu = toggle("cpu", "CPU threads", "show the threads of every rank", () => { layout(); draw(); });
  link.hidden = changed.hidden = cpu.hidden = true;
  node.append(el("div", { class: "tools" }, box, found, press("−", "zoom out", () => zoom(0.5)), press("+", "zoom in", () => zoom(2)), press("whole step", "show everything", () => whole()), toggle("critical", "critical path", "only what the step's length depends on"), changed, link, cpu),
    legend([...phases.filter(p => p !== "communication" || !v.purposes.length).map(p => [phaseColour[p], p]), ...v.purposes.map((p, i) => [`var(--${groupColour(i)})`, `${p} communication`]),
      ...(job ? [["var(--wait)", job.pipeline ? "waits for other ranks, bubble" : "waits for other ranks"]] : [])]), stage, picked);
  let pending = false, current = null, drag = null, wanted = "", hits = [], place = -1;

  v.inner = () => Math.max(50, canvas.clientWidth - v.gutter);
  const moment = (panel, px) => panel.from + (px - v.gutter) * (panel.to - panel.from) / v.inner();
  const panelAt = py => v.panels.find(p => py + v.top < p.end) || v.panels[v.panels.length - 1];
  function draw() { if (!pending && v.head) { pending = true; requestAnimationFrame(() => { pending = false; paintView(v); }); } }

  function layout() {
    const narrow = canvas.clientWidth < NARROW, c = canvas.getContext("2d");
    c.font = "11px system-ui, sans-serif";
    let y = 0, widest = 0;
    for (const panel of v.panels) {
      panel.y = y;
      y += TITLE + AXIS + 2;
      panel.rows = lanesOf(panel.line, job, v.cpu);
      for (const row of panel.rows) {
        row.y = y;
        row.height = row.group ? GROUP : narrow ? NAME + BAR : BAR;
        y += row.height;
        if (!row.group) widest = Math.max(widest, c.measureText(row.name || row.lane.name).width);
      }
      y += 10;
      panel.end = y;
    }
    v.tall = y;
    v.gutter = narrow ? 0 : Math.round(Math.min(220, Math.max(90, widest + 16)));
    canvas.style.height = `${Math.min(y, 900)}px`;
    v.top = Math.max(0, Math.min(v.top, y - Math.min(y, 900)));
  }
  // More lanes than there is room for: they move under the axis.
  function scroll(top) { v.top = Math.max(0, Math.min(v.tall - canvas.clientHeight, top)); draw(); }
  function reveal(l, t) {
    const row = v.panels[l].rows.find(r => r.lane && r.lane.begin <= t && t < r.lane.end);
    if (row && (row.y - v.top < TITLE + AXIS || row.y - v.top > canvas.clientHeight - BAR)) scroll(row.y - canvas.clientHeight / 2);
  }
  const longest = panel => Math.max(1, ...(v.linked ? v.lines : [panel.line]).map(line => line.step_ns));
  const moved = panel => v.linked ? v.panels : [panel];
  function clamp(panel, from, to) {
    const most = longest(panel) * 1.02, least = 200, width = Math.min(most, Math.max(least, to - from)), left = Math.min(Math.max(-most * 0.01, from), most - width);
    for (const p of moved(panel)) { p.from = left; p.to = left + width; }
    draw();
  }
  function zoom(factor, panel = current || v.panels[0], at = (panel.from + panel.to) / 2) { clamp(panel, at - (at - panel.from) / factor, at + (panel.to - at) / factor); }
  function whole() { for (const p of v.panels) clamp(p, -longest(p) * 0.005, longest(p) * 1.01); }
  const seesAll = panel => panel.to - panel.from > longest(panel) * 1.005;
  // Apart: a panel that showed its whole step fills the width with it. Together again: all follow the first.
  function relink() {
    const [first] = v.panels;
    if (v.linked) { if (first.to - first.from > first.line.step_ns) whole(); else clamp(first, first.from, first.to); return; }
    v.linked = true;
    const all = v.panels.every(seesAll);
    v.linked = false;
    if (all) whole(); else draw();
  }

  v.changeOf = (l, t) => {
    const line = v.lines[l], event = line.event[t], [measured, predicted] = v.lengths, { line: same, bad, good, accent } = v.colour;
    if (!isGpu(line.kind[t])) return same;
    if (l === 0) return predicted && event && !predicted.has(event) ? bad : same;
    const before = event ? measured.get(event) : undefined;
    if (before === undefined) return accent;
    return line.length[t] < before * 0.98 ? good : line.length[t] > before * 1.02 ? bad : same;
  };

  function at(px, py) {
    const panel = panelAt(py), head = panel && Math.min(Math.max(panel.y - v.top, 0), panel.end - v.top - TITLE - AXIS);
    if (!panel || py < head + TITLE + AXIS || px < v.gutter) return null;
    const row = panel.rows.find(r => r.lane && py + v.top >= r.y && py + v.top < r.y + r.height);
    if (!row) return null;
    const when = moment(panel, px), slack = 2 * (panel.to - panel.from) / v.inner(), i = firstAfter(panel.line, row.lane, when - slack);
    if (i >= row.lane.end - row.lane.begin) return null;
    const t = taskAt(row.lane, i);
    return panel.line.start[t] <= when + slack ? { l: panel.l, t } : null;
  }
  function pick(hit, move = false) {
    v.picked = hit;
    if (!hit) { picked.textContent = "Nothing selected."; draw(); return; }
    const line = v.lines[hit.l], panel = current = v.panels[hit.l];
    if (job && laneOf(line, hit.t)?.kind === LANE.cpu && !v.cpu) cpu.click();
    picked.replaceChildren(...pickedTask(v, hit, pick));
    reveal(hit.l, hit.t);
    if (move) { const middle = line.start[hit.t] + line.length[hit.t] / 2, half = Math.min(panel.to - panel.from, Math.max(line.length[hit.t] * 8, 40000)) / 2; clamp(panel, middle - half, middle + half); }
    draw();
  }
  function along(by) {
    if (!v.picked) return;
    const { l, t } = v.picked, lane = laneOf(v.lines[l], t);
    if (t + by >= lane.begin && t + by < lane.end) pick({ l, t: t + by }, true);
  }

  function search(text) {
    wanted = text.trim().toLowerCase();
    hits = [];
    place = -1;
    if (!wanted) { v.matches = null; found.textContent = ""; draw(); return; }
    const names = v.head.names.map(name => name.toLowerCase().includes(wanted)), phase = phases.indexOf(wanted.replace(/^\((.*)\)$/, "$1"));
    names[0] = false;
    v.matches = v.lines.map((line, l) => {
      const out = new Uint8Array(line.tasks);
      for (let t = 0; t < line.tasks; ++t) {
        if (!(names[line.name[t]] || names[line.layer[t]] || names[line.op[t]] || phase === (line.kind[t] >> 4 & 7) && isGpu(line.kind[t]))) continue;
        out[t] = 1;
        if (isGpu(line.kind[t]) || line.length[t]) hits.push({ l, t });
      }
      return out;
    });
    // GPU work first: what people look for.
    const gpu = hit => isGpu(v.lines[hit.l].kind[hit.t]);
    hits.sort((a, b) => gpu(b) - gpu(a) || a.l - b.l || v.lines[a.l].start[a.t] - v.lines[b.l].start[b.t]);
    found.textContent = `${hits.length} tasks`;
    draw();
  }
  function show(text) {
    box.value = text;
    search(text);
    node.scrollIntoView({ behavior: "auto" });
    if (hits.length) { place = 0; pick(hits[0]); }
  }
  // The longest GPU tasks of exactly this kernel, operation, layer or phase, in the first timeline.
  function named(text, most) {
    const name = v.head ? v.head.names.indexOf(text) : -1, phase = phases.indexOf(text.replace(/^\((.*)\)$/, "$1")), line = v.lines[0], out = [];
    if (!line || name < 1 && phase < 0) return out;
    for (let t = 0; t < line.tasks; ++t) {
      if (isGpu(line.kind[t]) && (name > 0 && (line.name[t] === name || line.layer[t] === name || line.op[t] === name) || phase >= 0 && name < 1 && phase === (line.kind[t] >> 4 & 7))) out.push(t);
    }
    return out.sort((a, b) => line.length[b] - line.length[a]).slice(0, most).map(t => ({ name: v.head.names[line.name[t]], length: lengthText(line.length[t]), show: () => { node.scrollIntoView({ behavior: "auto" }); pick({ l: 0, t }, true); } }));
  }
  box.addEventListener("input", () => search(box.value));
  box.addEventListener("keydown", event => { if (event.key === "Enter" && hits.length) { place = (place + (event.shiftKey ? hits.length - 1 : 1)) % hits.length; pick(hits[place], true); } });

  canvas.addEventListener("pointerdown", event => {
    const panel = current = panelAt(event.offsetY);
    if (panel) drag = { panel, x: event.offsetX, y: event.offsetY, from: panel.from, to: panel.to, top: v.top, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (drag) {
      const by = (event.offsetX - drag.x) * (drag.to - drag.from) / v.inner();
      drag.moved = drag.moved || Math.abs(event.offsetX - drag.x) + Math.abs(event.offsetY - drag.y) > 3;
      if (drag.moved) { hideTip(); if (event.pointerType !== "touch") scroll(drag.top - (event.offsetY - drag.y)); clamp(drag.panel, drag.from - by, drag.to - by); }
      return;
    }
    const hit = v.head && at(event.offsetX, event.offsetY);
    if (!hit) { hideTip(); return; }
    showTip(event.clientX, event.clientY, el("b", {}, shorten(v.head.names[v.lines[hit.l].name[hit.t]] || KINDS[v.lines[hit.l].kind[hit.t] & 15], 200)), el("br"), factsOf(v, hit).map(([k, said]) => `${k}: ${said}`).join(" · "));
  });
  canvas.addEventListener("pointerup", event => { if (drag && !drag.moved && v.head) pick(at(event.offsetX, event.offsetY)); drag = null; });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const panel = current = panelAt(event.offsetY);
    if (!panel) return;
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) { const by = (event.deltaX || event.deltaY) * (panel.to - panel.from) / v.inner(); clamp(panel, panel.from + by, panel.to + by); } else zoom(Math.exp(-event.deltaY / 400), panel, moment(panel, Math.max(v.gutter, event.offsetX)));
  }, { passive: false });
  canvas.addEventListener("keydown", event => {
    const panel = current || v.panels[0];
    if (!panel) return;
    const by = (panel.to - panel.from) / 8, middle = () => { const row = panel.rows.find(r => r.lane?.kind === LANE.gpu && r.y >= v.top) || panel.rows.find(r => r.lane && r.y >= v.top), hit = row && at(v.gutter + v.inner() / 2, row.y - v.top + row.height - BAR / 2); if (hit) pick(hit); };
    const keys = { ArrowLeft: () => clamp(panel, panel.from - by, panel.to - by), ArrowRight: () => clamp(panel, panel.from + by, panel.to + by), ArrowUp: () => scroll(v.top - 3 * BAR), ArrowDown: () => scroll(v.top + 3 * BAR), PageUp: () => scroll(v.top - canvas.clientHeight), PageDown: () => scroll(v.top + canvas.clientHeight),
      "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), Home: whole, 0: whole, Enter: middle, n: () => along(1), p: () => along(-1), Escape: () => pick(null) };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  const repaint = () => { v.colour = paletteOf(); layout(); paintView(v); };
  new ResizeObserver(() => { if (v.head) { layout(); draw(); } }).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (v.head) repaint(); });
  redraws.push(printing => { canvas.style.width = printing ? `${PAPER}px` : ""; if (v.head) repaint(); });

  function load(head, lines) {
    if (!lines.length) { picked.textContent = "This step has no tasks to show."; return; }
    v.head = head;
    v.lines = lines;
    v.lengths = job ? [] : lines.map(line => { const out = new Map(); for (let t = 0; t < line.tasks; ++t) if (isGpu(line.kind[t]) && line.event[t]) out.set(line.event[t], line.length[t]); return out; });
    v.panels = lines.map((line, l) => ({ line, l, title: `${ms(line.step_ns / 1e6)} ms ${line.title}`, from: 0, to: 1, rows: [] }));
    link.hidden = lines.length < 2;
    changed.hidden = link.hidden || Boolean(job);
    cpu.hidden = !job;
    v.colour = paletteOf();
    layout();
    whole();
    paintView(v);
    picked.textContent = "Nothing selected.";
  }
  return { v, load, clamp, zoom, whole, search, show, named, pick, paint: () => paintView(v), boxes: () => v.panels.flatMap(p => p.rows.filter(r => r.lane).map(r => ({ name: nameBox(v, r), bar: barBox(v, r) }))) };
}
