// Draws a view of the timeline; see 43_timeline.js for what it holds.

function paletteOf() {
  const style = getComputedStyle(document.documentElement), get = name => style.getPropertyValue(`--${name}`).trim();
  return { ...Object.fromEntries(["ink", "soft", "paper", "card", "line", "good", "bad", "accent", "wait"].map(name => [name, get(name)])), phases: phases.map(get), groups: Array.from({ length: GROUP_COLOURS }, (_, i) => get(groupColour(i))) };
}

// As much of a text as fits, or nothing.
function fitted(c, text, room) {
  if (c.measureText(text).width <= room) return text;
  const letters = Math.floor(text.length * room / c.measureText(text).width) - 1;
  return letters < 4 ? "" : `${text.slice(0, letters)}…`;
}

function paintView(v) {
  const { canvas, colour } = v, ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) { canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.fillStyle = colour.paper;
  c.fillRect(0, 0, width, height);
  c.textBaseline = "middle";
  c.font = "11px system-ui, sans-serif";
  for (const panel of v.panels) {
    const x = scaleOf(v, panel);
    gridLines(v, c, panel, x, height);
    for (const row of panel.rows) {
      const y = row.y - v.top;
      if (y > height || y + row.height < 0) continue;
      if (row.group) groupTitle(v, c, row, y, width); else if (row.spans) spansPaint(v, c, panel, row, y, x); else lanePaint(v, c, panel, row, y, x, width);
    }
    if (v.job) waits(v, c, panel, x, width);
    if (v.picked && v.picked.l === panel.l) chain(v, c, panel, x);
  }
  for (const panel of v.panels) panelHead(v, c, panel, scaleOf(v, panel), width);
  canvas.dataset.frames = Number(canvas.dataset.frames || 0) + 1;
}
function scaleOf(v, panel) {
  const scale = v.inner() / (panel.to - panel.from);
  return time => v.gutter + (time - panel.from) * scale;
}
function ticksOf(v, panel) {
  const span = panel.to - panel.from, most = Math.max(2, Math.min(9, Math.floor(v.inner() / 64)));
  const unit = 10 ** Math.floor(Math.log10(span / most)), step = [1, 2, 5, 10].map(k => k * unit).find(k => span / k <= most) || 10 * unit, out = [];
  for (let time = Math.ceil(panel.from / step) * step; time < panel.to; time += step) out.push(time);
  return { step, ticks: out };
}
function gridLines(v, c, panel, x, height) {
  const from = Math.max(0, panel.y - v.top + TITLE + AXIS), to = Math.min(height, panel.end - v.top);
  c.fillStyle = colourOf(v, "line");
  for (const time of ticksOf(v, panel).ticks) if (x(time) >= v.gutter) c.fillRect(Math.round(x(time)), from, 1, to - from);
}
const colourOf = (v, name) => v.colour[name];

// Title and axis stay in view while the lanes of their panel are.
function panelHead(v, c, panel, x, width) {
  const y = Math.min(Math.max(panel.y - v.top, 0), panel.end - v.top - TITLE - AXIS);
  if (y < -TITLE - AXIS) return;
  c.fillStyle = v.colour.paper;
  c.fillRect(0, y, width, TITLE + AXIS - 2);
  c.fillStyle = v.colour.ink;
  c.font = "600 12px system-ui, sans-serif";
  c.fillText(fitted(c, panel.title, width - 12), 6, y + TITLE / 2 + 1);
  c.font = "11px system-ui, sans-serif";
  const { step, ticks } = ticksOf(v, panel), digits = Math.max(0, Math.min(6, 6 - Math.floor(Math.log10(step))));
  for (const time of ticks) {
    const text = `${(time / 1e6).toFixed(digits)} ms`, left = Math.round(x(time));
    if (left < v.gutter) continue;
    c.fillStyle = v.colour.line;
    c.fillRect(left, y + TITLE + 2, 1, AXIS - 4);
    c.fillStyle = v.colour.soft;
    if (left + 4 + c.measureText(text).width < width) c.fillText(text, left + 4, y + TITLE + AXIS / 2 - 1);
  }
  c.fillStyle = v.colour.line;
  c.fillRect(0, y + TITLE + AXIS - 2, width, 1);
}
function groupTitle(v, c, row, y, width) {
  c.fillStyle = v.colour.card;
  c.fillRect(0, y, width, row.height - 2);
  c.fillStyle = row.late ? v.colour.bad : v.colour.ink;
  c.font = "600 11px system-ui, sans-serif";
  c.fillText(fitted(c, row.group, width - 12), 6, y + row.height / 2 - 1);
  c.font = "11px system-ui, sans-serif";
}
function fillOf(v, panel, t) {
  const kind = panel.line.kind[t];
  if (v.changed) return v.changeOf(panel.l, t);
  if ((kind & 15) === 3) return v.colour.wait;
  const purpose = v.job && (kind & 15) === 7 ? v.purposes.indexOf(v.head.names[panel.line.op[t]].split(" ")[0]) : -1;
  return purpose < 0 ? v.colour.phases[kind >> 4 & 7] : v.colour.groups[purpose % GROUP_COLOURS];
}
function lanePaint(v, c, panel, row, y, x, width) {
  const { line } = panel, { lane } = row, count = lane.end - lane.begin, side = v.gutter, box = barBox(v, row), top = box.y - v.top, tall = box.height;
  const marked = t => v.matches ? v.matches[panel.l][t] : line.kind[t] > 127;
  const dim = Boolean(v.matches || v.critical), scale = v.inner() / (panel.to - panel.from);
  let i = firstAfter(line, lane, panel.from);
  while (i < count) {
    const t = taskAt(lane, i), left = line.start[t];
    if (left > panel.to) break;
    const x0 = x(left), x1 = x(left + line.length[t]), on = !dim || marked(t);
    if (x1 - x0 < 1) {
      // All tasks that end in this pixel are one mark; the next one is found by halving.
      const pixel = Math.floor(x0) + 1, next = Math.max(i + 1, firstAfter(line, lane, panel.from + (pixel - side) / scale));
      let any = on;
      if (!any && next - i < 64) for (let j = i + 1; j < next && !any; ++j) any = marked(taskAt(lane, j));
      if (line.length[t] > 0 || next - i > 1) {
        c.globalAlpha = any ? 0.9 : 0.18;
        c.fillStyle = fillOf(v, panel, t);
        c.fillRect(Math.floor(x0), top, 1, tall);
      }
      i = next;
      continue;
    }
    c.globalAlpha = on ? 1 : 0.18;
    c.fillStyle = fillOf(v, panel, t);
    const x2 = Math.max(side, x0);
    c.fillRect(x2, top, Math.max(1, x1 - x2 - 0.5), tall);
    if (v.picked && v.picked.l === panel.l && v.picked.t === t) { c.strokeStyle = v.colour.ink; c.lineWidth = 2; c.strokeRect(x2 + 1, top + 1, Math.max(1, x1 - x2 - 2), tall - 2); }
    const room = Math.min(width, x1) - x2 - 8;
    if (room > 28) {
      c.fillStyle = (line.kind[t] & 15) === 3 || v.changed ? v.colour.ink : v.colour.paper;
      c.fillText(fitted(c, kernelName(v.head.names[line.name[t]] || "").slice(0, 160), room), x2 + 4, top + tall / 2 + 0.5);
    }
    ++i;
  }
  c.globalAlpha = 1;
  laneName(v, c, row, y);
}
function laneName(v, c, row, y) {
  const name = nameBox(v, row);
  c.fillStyle = v.colour.paper;
  if (v.gutter) c.fillRect(0, y, v.gutter - 2, row.height);
  c.fillStyle = v.colour.soft;
  c.fillText(fitted(c, row.name || row.lane.name, name.width), name.x, name.y - v.top + name.height / 2 + 0.5);
}
// Spans of time that are no tasks: begin and end in turn.
function spansPaint(v, c, panel, row, y, x) {
  const box = barBox(v, row);
  c.fillStyle = v.colour.wait;
  for (let i = 0; i < row.spans.length; i += 2) {
    const from = Math.max(v.gutter, x(row.spans[i])), to = x(row.spans[i + 1]);
    if (to > from) c.fillRect(from, box.y - v.top, Math.max(1, to - from), box.height);
  }
  laneName(v, c, row, y);
}
const middleOf = (v, panel, lane) => {
  const row = panel.rows.find(r => r.lane === lane);
  return row ? row.y - v.top + row.height - BAR / 2 : null;
};
// Who waits for whom: from the rank that came last to those that waited for it, where the wait is wide enough to be seen.
function waits(v, c, panel, x, width) {
  const { line } = panel, middles = new Map(panel.rows.filter(r => r.lane).map(r => [r.lane, r.y - v.top + r.height - BAR / 2]));
  c.strokeStyle = c.fillStyle = v.colour.bad;
  c.lineWidth = 1;
  c.globalAlpha = 0.6;
  for (const { t, lane, from, other } of meetingsOf(line)) {
    const begin = x(line.start[t]), end = x(line.start[t] + line.length[t]), y0 = middles.get(other), y1 = middles.get(lane);
    if (end - begin < 3 || end > width || end < v.gutter || y0 === undefined || y1 === undefined) continue;
    const down = y1 > y0 ? 1 : -1;
    c.beginPath();
    c.moveTo(Math.max(v.gutter, Math.min(end, x(line.start[from]))), y0);
    c.lineTo(end, y1 - down * 10);
    c.stroke();
    c.beginPath();
    c.moveTo(end, y1 - down * 6);
    c.lineTo(end - 3.5, y1 - down * 12);
    c.lineTo(end + 3.5, y1 - down * 12);
    c.fill();
  }
  c.globalAlpha = 1;
}
// From the picked task to what held it back, and on.
function chain(v, c, panel, x) {
  const { line } = panel;
  c.strokeStyle = v.colour.ink;
  c.lineWidth = 1.5;
  let t = v.picked.t;
  for (let n = 0; n < 12 && line.cause[t]; ++n) {
    const from = t - line.cause[t], y0 = middleOf(v, panel, laneOf(line, t)), y1 = middleOf(v, panel, laneOf(line, from));
    if (y0 === null || y1 === null) break;
    c.globalAlpha = 1 - n / 14;
    c.beginPath();
    c.moveTo(Math.max(v.gutter, x(line.start[t])), y0);
    c.lineTo(Math.max(v.gutter, x(line.start[from] + line.length[from])), y1);
    c.stroke();
    t = from;
  }
  c.globalAlpha = 1;
}
