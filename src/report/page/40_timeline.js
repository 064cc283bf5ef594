// The timeline: measured above predicted, on one canvas. Only what is in view is looked at, and tasks that fall into one pixel
// are drawn as one, so that the cost of a frame follows the width of the canvas and not the number of tasks.

const KINDS = ["begin", "CPU", "runtime call", "wait", "kernel", "copy", "fill", "collective"];
const PHASES = ["forward", "backward", "optimizer", "communication", "data", "other"];
const WHY = ["it starts with the step", "the task before it on its lane", "its launch", "room in the launch queue", "a synchronisation", "another stream", "room on the GPU", "its place in the CUDA graph", "another thread", "work from before the step", "the other ranks"];

function timeline() {
  const node = section("timeline", "Timeline", "Measured above predicted. Wheel or + and − zoom, dragging or arrow keys move, a click or Enter selects, n and p go along the lane; Enter in the search box goes to the next match.");
  const box = el("input", { type: "search", placeholder: "kernel, operation or layer", "aria-label": "search the timeline" });
  const found = el("span", { class: "note", role: "status" });
  const press = (name, title, call) => el("button", { class: "tool", type: "button", title, on: { click: call } }, name);
  const toggles = {};
  const toggle = (key, name) => toggles[key] = el("button", { class: "tool", type: "button", "aria-pressed": "false", on: { click: event => { view[key] = !view[key]; event.target.setAttribute("aria-pressed", String(view[key])); draw(); } } }, name);
  const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": "timeline; arrow keys move, plus and minus zoom, Enter selects the task in the middle" });
  const tip = el("div", { id: "tip", hidden: true }), picked = el("div", { id: "picked", role: "status", "aria-live": "polite" }, "Loading …");
  node.append(el("div", { class: "tools" }, box, found, press("−", "zoom out", () => zoom(0.5)), press("+", "zoom in", () => zoom(2)), press("whole step", "show everything", () => whole()), toggle("critical", "critical path"), toggle("changed", "what changed")),
    el("div", { class: "legend" }, PHASES.map(p => el("span", {}, el("i", { style: { background: phaseColour[p] } }), p))),
    el("div", { id: "stage" }, canvas, tip), picked);
  const view = { from: 0, to: 1, top: 0, critical: false, changed: false, picked: null, matches: null, hover: null };
  let head = null, rows = [], measuredLength = null, predictedLength = null, pending = false, colour = {}, causes = [], tall = 0;
  const LABEL = 20, ROW = 20, TITLE = 22;
  // Names of lanes stand beside the tasks where there is room, else over them.
  const gutter = () => canvas.clientWidth > 700 ? 150 : 0;
  const inner = () => Math.max(50, canvas.clientWidth - gutter());
  const moment = px => view.from + (px - gutter()) * span() / inner();

  function layout() {
    rows = [];
    let y = LABEL;
    head.timelines.forEach((line, l) => {
      rows.push({ title: `${line.title}: ${ms(line.step_ns / 1e6)} ms`, y });
      y += TITLE;
      for (const lane of line.lanes) {
        if (lane.end - lane.begin < 1) continue;
        rows.push({ line, l, lane, y });
        y += ROW;
      }
      y += 8;
    });
    tall = y + 6;
    canvas.style.height = `${Math.min(tall, 900)}px`;
  }
  // More lanes than there is room for: they are moved under the axis.
  function scroll(top) { view.top = Math.max(0, Math.min(tall - canvas.clientHeight, top)); draw(); }
  function reveal(l, t) {
    const row = rows.find(r => r.l === l && r.lane && r.lane.begin <= t && t < r.lane.end);
    if (row && (row.y - view.top < LABEL || row.y - view.top > canvas.clientHeight - ROW)) scroll(row.y - canvas.clientHeight / 2);
  }
  function palette() {
    const style = getComputedStyle(document.documentElement), get = name => style.getPropertyValue(`--${name}`).trim();
    colour = { ink: get("ink"), soft: get("soft"), paper: get("paper"), line: get("line"), mark: get("mark"), good: get("good"), bad: get("bad"), accent: get("accent"), phases: PHASES.map(get) };
  }
  const span = () => view.to - view.from;
  const longest = () => Math.max(1, ...head.timelines.map(line => line.step_ns));
  function clamp(from, to) {
    const most = longest() * 1.02, least = 200;
    let width = Math.min(most, Math.max(least, to - from));
    from = Math.min(Math.max(-most * 0.01, from), most - width);
    view.from = from;
    view.to = from + width;
    draw();
  }
  function zoom(factor, at = (view.from + view.to) / 2) { clamp(at - (at - view.from) / factor, at + (view.to - at) / factor); }
  function whole() { clamp(-longest() * 0.005, longest() * 1.01); }
  const task = (row, i) => row.lane.order ? row.lane.order[i] : row.lane.begin + i;
  // The first task of a lane that ends after a moment.
  function first(row, moment) {
    let low = 0, high = row.lane.end - row.lane.begin;
    while (low < high) {
      const middle = (low + high) >> 1, t = task(row, middle);
      if (row.line.start[t] + row.line.length[t] <= moment) low = middle + 1; else high = middle;
    }
    return low;
  }

  function changeOf(row, t) {
    if (row.line.kind[t] % 16 < 4) return colour.line;
    const event = row.line.event[t];
    if (row.l === 0) return predictedLength && event && !predictedLength.has(event) ? colour.bad : colour.line;
    const before = event ? measuredLength.get(event) : undefined;
    if (before === undefined) return colour.accent;
    return row.line.length[t] < before * 0.98 ? colour.good : row.line.length[t] > before * 1.02 ? colour.bad : colour.line;
  }

  function paint() {
    pending = false;
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); }
    const c = canvas.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = colour.paper;
    c.fillRect(0, 0, width, height);
    const side = gutter(), scale = inner() / span(), x = time => side + (time - view.from) * scale;
    const unit = 10 ** Math.floor(Math.log10(span() / 5)), step = [1, 2, 5, 10].map(k => k * unit).find(k => span() / k <= 9) || 10 * unit;
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    for (let time = Math.ceil(view.from / step) * step; time < view.to; time += step) {
      c.fillStyle = colour.line;
      c.fillRect(x(time), LABEL - 4, 1, height);
      c.fillStyle = colour.soft;
      c.fillText(`${(time / 1e6).toFixed(Math.max(0, Math.min(6, 6 - Math.floor(Math.log10(step)))))} ms`, x(time) + 3, 9);
    }
    c.save();
    c.beginPath();
    c.rect(0, LABEL - 4, width, height);
    c.clip();
    for (const row of rows) {
      const y = row.y - view.top;
      if (y < LABEL - TITLE || y > height) continue;
      if (row.title) {
        c.fillStyle = colour.ink;
        c.font = "600 12px system-ui, sans-serif";
        c.fillText(row.title, 6, y + TITLE / 2);
        c.font = "11px system-ui, sans-serif";
        continue;
      }
      const { line, lane } = row, count = lane.end - lane.begin;
      let i = first(row, view.from);
      while (i < count) {
        const t = task(row, i), left = line.start[t];
        if (left > view.to) break;
        const x0 = x(left), x1 = x(left + line.length[t]), k = line.kind[t];
        const on = view.matches ? view.matches[row.l][t] : view.critical ? k > 127 : true;
        if (x1 - x0 < 1) {
          // All tasks that end in this pixel are one mark; the next one is found by halving.
          const pixel = Math.floor(x0) + 1;
          let next = first(row, view.from + (pixel - side) / scale);
          if (next <= i) next = i + 1;
          let any = on;
          if (!any && next - i < 64) for (let j = i + 1; j < next && !any; ++j) { const u = task(row, j); any = view.matches ? view.matches[row.l][u] : line.kind[u] > 127; }
          if (line.length[t] > 0 || next - i > 1) {
            c.globalAlpha = any ? 0.9 : 0.18;
            c.fillStyle = view.changed ? changeOf(row, t) : colour.phases[k >> 4 & 7];
            c.fillRect(Math.floor(x0), y + 2, 1, ROW - 4);
          }
          i = next;
          continue;
        }
        c.globalAlpha = on ? 1 : 0.18;
        c.fillStyle = view.changed ? changeOf(row, t) : colour.phases[k >> 4 & 7];
        const x2 = Math.max(side, x0);
        c.fillRect(x2, y + 2, Math.max(1, x1 - x2 - 0.5), ROW - 4);
        if (view.picked && view.picked.l === row.l && view.picked.t === t) { c.strokeStyle = colour.ink; c.lineWidth = 2; c.strokeRect(x0, y + 2, x1 - x0, ROW - 4); }
        if (x1 - x0 > 40) {
          c.fillStyle = colour.paper;
          c.save();
          c.beginPath();
          c.rect(x2, y, Math.min(width, x1) - x2 - 2, ROW);
          c.clip();
          c.fillText(kernelName(head.names[line.name[t]]).slice(0, 160), x2 + 3, y + ROW / 2);
          c.restore();
        }
        ++i;
      }
      c.globalAlpha = 1;
      const label = shorten(lane.name, 24), wide = side || c.measureText(label).width + 8;
      c.fillStyle = colour.paper;
      c.globalAlpha = side ? 1 : 0.75;
      c.fillRect(0, y, wide, ROW);
      c.globalAlpha = 1;
      c.fillStyle = colour.soft;
      c.fillText(label, 4, y + ROW / 2);
    }
    if (view.picked) chain(c, x);
    c.restore();
    canvas.dataset.frames = Number(canvas.dataset.frames || 0) + 1;
  }
  // From the picked task to what held it back, and on.
  function chain(c, x) {
    const line = head.timelines[view.picked.l];
    const middle = t => { const row = rows.find(r => r.line === line && r.lane.begin <= t && t < r.lane.end); return row ? row.y - view.top + ROW / 2 : 0; };
    c.strokeStyle = colour.ink;
    c.lineWidth = 1.5;
    let t = view.picked.t;
    for (let n = 0; n < 12 && line.cause[t]; ++n) {
      const from = t - line.cause[t];
      c.globalAlpha = 1 - n / 14;
      c.beginPath();
      c.moveTo(x(line.start[t]), middle(t));
      c.lineTo(x(line.start[from] + line.length[from]), middle(from));
      c.stroke();
      t = from;
    }
    c.globalAlpha = 1;
  }
  function draw() { if (!pending && head) { pending = true; requestAnimationFrame(paint); } }

  function at(px, py) {
    const row = py < LABEL ? null : rows.find(r => r.lane && py + view.top >= r.y && py + view.top < r.y + ROW);
    if (!row || px < gutter()) return null;
    const when = moment(px), slack = 2 * span() / inner(), i = first(row, when - slack);
    if (i >= row.lane.end - row.lane.begin) return null;
    const t = task(row, i);
    return row.line.start[t] <= when + slack ? { l: row.l, t } : null;
  }
  function facts({ l, t }) {
    const line = head.timelines[l], k = line.kind[t], names = head.names;
    const out = [["what", `${KINDS[k & 15]}${k > 127 ? ", on the critical path" : ""}`]];
    if (line.op[t] && names[line.op[t]] !== names[line.name[t]]) out.push(["operation", shorten(names[line.op[t]], 400)]);
    if (line.layer[t]) out.push(["layer", shorten(names[line.layer[t]], 400)]);
    const late = line.late(), details = head.details;
    if (late.shapes[t]) out.push(["shapes", shorten(details[late.shapes[t]], 400)]);
    if (late.launch[t]) out.push(["launched as", details[late.launch[t]]]);
    out.push(["phase", PHASES[k >> 4 & 7]], ["starts", `${(line.start[t] / 1e6).toFixed(4)} ms`], ["takes", line.length[t] >= 1e6 ? `${ms(line.length[t] / 1e6, 3)} ms` : `${(line.length[t] / 1e3).toFixed(2)} µs`]);
    if (l === 1 && k % 16 >= 4) {
      const before = line.event[t] ? measuredLength.get(line.event[t]) : undefined;
      out.push(["measured", before === undefined ? "not there: the change brings it" : `${(before / 1e3).toFixed(2)} µs`]);
    }
    if (l === 0 && k % 16 >= 4 && predictedLength) {
      const after = line.event[t] ? predictedLength.get(line.event[t]) : undefined;
      out.push(["with the change", after === undefined ? "gone, or part of another kernel" : Math.abs(after - line.length[t]) < 0.02 * line.length[t] ? "as long as now" : `${(after / 1e3).toFixed(2)} µs`]);
    }
    const from = line.cause[t] ? t - line.cause[t] : null;
    out.push(["waited for", WHY[line.why[t]] + (from !== null ? `: ${shorten(names[line.name[from]] || KINDS[line.kind[from] & 15], 160)}` : "")]);
    return out;
  }
  function pick(hit, move = false) {
    view.picked = hit;
    if (!hit) { picked.textContent = "Nothing selected."; draw(); return; }
    const line = head.timelines[hit.l];
    const list = el("dl", { class: "kv" });
    for (const [name, value] of facts(hit)) list.append(el("dt", {}, name), el("dd", {}, value));
    const buttons = el("div", { class: "tools" });
    for (const [name, tasks] of dependencies(hit)) {
      if (!tasks.length) continue;
      const shown = tasks.slice(0, 8).map(([t, why]) => el("button", { class: "tool", type: "button", title: `select it: ${WHY[why]}`, on: { click: () => pick({ l: hit.l, t }, true) } }, `${shorten(kernelName(head.names[line.name[t]] || KINDS[line.kind[t] & 15]), 48)} (${WHY[why]})`));
      list.append(el("dt", {}, name), el("dd", { class: "tools" }, shown, tasks.length > 8 ? `and ${tasks.length - 8} more` : null));
    }
    if (line.cause[hit.t]) buttons.append(press("what it waited for", "select the cause", () => pick({ l: hit.l, t: hit.t - line.cause[hit.t] }, true)));
    const next = waiting(hit);
    if (next !== null) buttons.append(press("what waited for it", "select a task that waited for this one", () => pick({ l: hit.l, t: next }, true)));
    picked.replaceChildren(el("b", {}, shorten(head.names[line.name[hit.t]] || KINDS[line.kind[hit.t] & 15], 600)), list, buttons);
    reveal(hit.l, hit.t);
    if (move) { const middle = line.start[hit.t] + line.length[hit.t] / 2, half = Math.min(span(), Math.max(line.length[hit.t] * 8, 40000)) / 2; clamp(middle - half, middle + half); }
    draw();
  }
  // Who waited for a task last: the index is made when it is first asked for.
  function waiting({ l, t }) {
    if (!causes[l]) {
      const line = head.timelines[l], index = causes[l] = new Int32Array(line.tasks).fill(-1);
      for (let u = 0; u < line.tasks; ++u) if (line.cause[u] && line.why[u] !== 1) { const from = u - line.cause[u]; if (index[from] < 0) index[from] = u; }
    }
    return causes[l][t] >= 0 ? causes[l][t] : null;
  }
  // All that a task has to wait for and all that has to wait for it, whether or not it was what held them up.
  function dependencies({ l, t }) {
    const line = head.timelines[l], late = line.late(), before = [], after = [];
    if (!late.to) {
      late.to = new Uint32Array(line.tasks + 1);
      late.after = new Uint32Array(late.from.length);
      late.afterWhy = new Uint8Array(late.from.length);
      for (let u = 0; u < line.tasks; ++u) for (let i = late.first[u]; i < late.first[u + 1]; ++i) ++late.to[u - late.from[i] + 1];
      for (let u = 0; u < line.tasks; ++u) late.to[u + 1] += late.to[u];
      const next = late.to.slice();
      for (let u = 0; u < line.tasks; ++u) for (let i = late.first[u]; i < late.first[u + 1]; ++i) { const at = next[u - late.from[i]]++; late.after[at] = u; late.afterWhy[at] = late.why[i]; }
    }
    const lane = line.lanes.find(x => x.begin <= t && t < x.end);
    if (t > lane.begin && !lane.order) before.push([t - 1, 1]);
    for (let i = late.first[t]; i < late.first[t + 1]; ++i) before.push([t - late.from[i], late.why[i]]);
    if (t + 1 < lane.end && !lane.order) after.push([t + 1, 1]);
    for (let i = late.to[t]; i < late.to[t + 1]; ++i) after.push([late.after[i], late.afterWhy[i]]);
    return [["depends on", before], ["needed by", after]];
  }

  let wanted = "", hits = [], place = -1;
  function search(text) {
    wanted = text.trim().toLowerCase();
    hits = [];
    place = -1;
    if (!wanted) { view.matches = null; found.textContent = ""; draw(); return; }
    const names = head.names.map(name => name.toLowerCase().includes(wanted));
    names[0] = false;
    const phase = PHASES.indexOf(wanted);
    view.matches = head.timelines.map((line, l) => {
      const out = new Uint8Array(line.tasks);
      for (let t = 0; t < line.tasks; ++t) {
        if (names[line.name[t]] || names[line.layer[t]] || names[line.op[t]] || phase === (line.kind[t] >> 4 & 7) && line.kind[t] % 16 >= 4) {
          out[t] = 1;
          if (line.kind[t] % 16 >= 4 || !line.length[t] === false) hits.push({ l, t });
        }
      }
      return out;
    });
    // GPU work first: what people look for.
    hits.sort((a, b) => (head.timelines[b.l].kind[b.t] % 16 >= 4) - (head.timelines[a.l].kind[a.t] % 16 >= 4) || a.l - b.l || head.timelines[a.l].start[a.t] - head.timelines[b.l].start[b.t]);
    found.textContent = `${hits.length} tasks`;
    draw();
  }
  box.addEventListener("input", () => search(box.value));
  box.addEventListener("keydown", event => { if (event.key === "Enter" && hits.length) { place = (place + (event.shiftKey ? hits.length - 1 : 1)) % hits.length; pick(hits[place], true); } });
  showInTimeline = text => { box.value = text; search(text); node.scrollIntoView({ behavior: "auto" }); if (hits.length) { place = 0; pick(hits[0]); } };

  let drag = null;
  canvas.addEventListener("pointerdown", event => { drag = { x: event.offsetX, y: event.offsetY, from: view.from, to: view.to, top: view.top, moved: false }; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointermove", event => {
    if (drag) {
      const by = (event.offsetX - drag.x) * (drag.to - drag.from) / inner();
      drag.moved = drag.moved || Math.abs(event.offsetX - drag.x) + Math.abs(event.offsetY - drag.y) > 3;
      if (drag.moved) { scroll(drag.top - (event.offsetY - drag.y)); clamp(drag.from - by, drag.to - by); }
      return;
    }
    const hit = head && at(event.offsetX, event.offsetY);
    tip.hidden = !hit;
    if (!hit) return;
    tip.textContent = "";
    tip.append(el("b", {}, shorten(head.names[head.timelines[hit.l].name[hit.t]] || "", 200)), el("br"), facts(hit).map(([k, v]) => `${k}: ${v}`).join(" · "));
    tip.style.left = `${Math.min(event.offsetX + 12, canvas.clientWidth - 260)}px`;
    tip.style.top = `${event.offsetY + 16}px`;
  });
  canvas.addEventListener("pointerup", event => { if (drag && !drag.moved && head) pick(at(event.offsetX, event.offsetY)); drag = null; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) { const by = (event.deltaX || event.deltaY) * span() / inner(); clamp(view.from + by, view.to + by); } else zoom(Math.exp(-event.deltaY / 400), moment(Math.max(gutter(), event.offsetX)));
  }, { passive: false });
  canvas.addEventListener("keydown", event => {
    const by = span() / 8, keys = { ArrowLeft: () => clamp(view.from - by, view.to - by), ArrowRight: () => clamp(view.from + by, view.to + by), ArrowUp: () => scroll(view.top - 3 * ROW), ArrowDown: () => scroll(view.top + 3 * ROW), PageUp: () => scroll(view.top - canvas.clientHeight), PageDown: () => scroll(view.top + canvas.clientHeight), "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), Home: whole, 0: whole,
      Enter: () => { const row = rows.find(r => r.lane && r.lane.kind === 1 && r.y >= view.top + LABEL) || rows.find(r => r.lane && r.y >= view.top); const hit = row && at(gutter() + inner() / 2, row.y - view.top + 4); if (hit) pick(hit); },
      n: () => { if (view.picked) { const line = head.timelines[view.picked.l], lane = line.lanes.find(x => x.begin <= view.picked.t && view.picked.t < x.end); if (view.picked.t + 1 < lane.end) pick({ l: view.picked.l, t: view.picked.t + 1 }, true); } },
      p: () => { if (view.picked) { const line = head.timelines[view.picked.l], lane = line.lanes.find(x => x.begin <= view.picked.t && view.picked.t < x.end); if (view.picked.t > lane.begin) pick({ l: view.picked.l, t: view.picked.t - 1 }, true); } },
      Escape: () => pick(null) };
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
  });
  new ResizeObserver(draw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette(); draw(); });

  return async () => {
    head = await unpack();
    if (!head) { picked.textContent = "This step has no tasks to show."; return; }
    const [before, after] = head.timelines;
    measuredLength = new Map();
    for (let t = 0; t < before.tasks; ++t) if (before.kind[t] % 16 >= 4 && before.event[t]) measuredLength.set(before.event[t], before.length[t]);
    if (after) { predictedLength = new Map(); for (let t = 0; t < after.tasks; ++t) if (after.kind[t] % 16 >= 4 && after.event[t]) predictedLength.set(after.event[t], after.length[t]); }
    palette();
    layout();
    whole();
    paint();
    picked.textContent = "Nothing selected.";
    document.documentElement.dataset.timeline = String(Math.round(performance.now()));
    // For scripts that look at the page: benchmarks and tests.
    window.foretrace = { view, clamp, zoom, whole, search, tasks: head.timelines.map(line => line.tasks), paint, pick, rows: () => rows.length };
  };
}
