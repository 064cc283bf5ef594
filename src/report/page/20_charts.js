const colours = ["var(--forward)", "var(--backward)", "var(--optimizer)", "var(--communication)", "var(--data)", "var(--other)"];
const phaseColour = { forward: colours[0], backward: colours[1], optimizer: colours[2], communication: colours[3], data: colours[4], other: colours[5] };

// From today to the best combination, one change after the other.
function waterfall(steps) {
  const width = 760, row = 26, left = 230, right = 70, most = Math.max(...steps.map(s => Math.max(s.from ?? 0, s.to)));
  const x = value => left + (width - left - right) * value / most;
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${row * steps.length + 6}`, role: "img", "aria-label": `waterfall: ${steps.map(s => `${s.name} ${ms(s.to)} ms`).join(", ")}` });
  steps.forEach((s, i) => {
    const y = i * row + 4, whole = s.from === undefined;
    const from = whole ? 0 : Math.min(s.from, s.to), to = whole ? s.to : Math.max(s.from, s.to);
    const fill = whole ? "var(--other)" : s.to <= s.from ? "var(--good)" : "var(--bad)";
    const name = svg("text", { x: left - 8, y: y + 15, "text-anchor": "end" });
    name.textContent = shorten(s.name, 34);
    const figure = svg("text", { x: x(to) + 6, y: y + 15, class: "soft" });
    figure.textContent = whole ? `${ms(s.to)} ms` : `${s.to <= s.from ? "−" : "+"}${ms(Math.abs(s.to - s.from))}`;
    drawn.append(name, svg("rect", { x: x(from), y: y + 2, width: Math.max(1, x(to) - x(from)), height: row - 8, rx: 2, style: `fill:${fill}` }), figure);
  });
  return drawn;
}

// A line with its band. Points: {x, y, low, high}; x on a logarithmic axis of base 2.
function curve(points, { label, height = 220, extra = [] }) {
  const width = 640, left = 52, bottom = 30, top = 12;
  const xs = points.map(p => Math.log2(p.x)), min = Math.min(...xs), max = Math.max(...xs);
  const most = Math.max(...points.map(p => Math.max(p.high ?? p.y, p.y))) * 1.05;
  const x = p => left + (width - left - 20) * (max > min ? (Math.log2(p.x) - min) / (max - min) : 0.5);
  const y = value => top + (height - top - bottom) * (1 - value / most);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (let i = 0; i <= 4; ++i) {
    const value = most * i / 4, text = svg("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end", class: "soft" });
    text.textContent = ms(value, 0);
    drawn.append(svg("line", { x1: left, x2: width - 20, y1: y(value), y2: y(value), style: "stroke:var(--line)" }), text);
  }
  if (points.every(p => p.low !== undefined)) {
    const band = points.map(p => `${x(p)},${y(p.high)}`).concat(points.slice().reverse().map(p => `${x(p)},${y(p.low)}`));
    drawn.append(svg("polygon", { points: band.join(" "), style: "fill:var(--accent);opacity:.15" }));
  }
  for (const [name, colour] of [["y", "var(--accent)"], ...extra]) {
    drawn.append(svg("polyline", { points: points.map(p => `${x(p)},${y(p[name] ?? 0)}`).join(" "), style: `fill:none;stroke:${colour};stroke-width:2` }));
  }
  for (const p of points) {
    const text = svg("text", { x: x(p), y: height - 8, "text-anchor": "middle", class: "soft" });
    text.textContent = p.x;
    drawn.append(svg("circle", { cx: x(p), cy: y(p.y), r: 3.5, style: "fill:var(--accent)" }), text);
  }
  return drawn;
}

function stacked(memory) {
  const width = 760, height = 240, left = 60, bottom = 24, count = memory.kinds[0].bytes.length;
  const base = memory.kinds[0].bytes.map(() => memory.start_bytes);
  const totals = base.map((b, i) => b + memory.kinds.reduce((sum, k) => sum + k.bytes[i], 0));
  const most = Math.max(memory.peak_bytes, ...totals) * 1.04;
  const x = i => left + (width - left - 10) * i / Math.max(1, count - 1), y = v => 8 + (height - bottom - 8) * (1 - v / most);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `memory over the step, peak ${gb(memory.peak_bytes)}` });
  const area = (low, high, colour) => drawn.append(svg("polygon", { points: high.map((v, i) => `${x(i)},${y(v)}`).concat(low.map((v, i) => [v, i]).reverse().map(([v, i]) => `${x(i)},${y(v)}`)).join(" "), style: `fill:${colour};opacity:.8` }));
  area(base.map(() => 0), base, colours[0]);
  let low = base;
  memory.kinds.forEach((kind, k) => {
    const high = low.map((v, i) => v + kind.bytes[i]);
    area(low, high, colours[k % colours.length]);
    low = high;
  });
  for (let i = 0; i <= 4; ++i) {
    const text = svg("text", { x: left - 6, y: y(most * i / 4) + 4, "text-anchor": "end", class: "soft" });
    text.textContent = `${(most * i / 4e9).toFixed(1)} GB`;
    drawn.append(text);
  }
  for (const [at, name] of [[0, "forward"], [memory.backward_from, "backward"], [memory.update_from, "update"]]) {
    const text = svg("text", { x: x(at) + 3, y: height - 6, class: "soft" });
    text.textContent = name;
    drawn.append(svg("line", { x1: x(at), x2: x(at), y1: 8, y2: height - bottom, style: "stroke:var(--line)" }), text);
  }
  drawn.append(svg("line", { x1: x(memory.peak_at), x2: x(memory.peak_at), y1: 8, y2: height - bottom, style: "stroke:var(--bad);stroke-dasharray:4 3" }));
  return drawn;
}

// FLOP per byte against FLOP per second, both logarithmic; a circle's area is the operation's time.
function roofline(roof) {
  const width = 760, height = 380, left = 62, bottom = 34;
  const points = roof.operations.filter(o => o.flops > 0 && o.bytes > 0 && o.ms > 0).map(o => ({ o, x: o.flops / o.bytes, y: o.flops / o.ms / 1e9 }));
  if (!points.length) return null;
  const peak = Math.max(roof.fp16_tflops, roof.tf32_tflops, roof.fp32_tflops, 1e-3);
  const xs = points.map(p => Math.log10(p.x)).concat([0, Math.log10(1000)]), ys = points.map(p => Math.log10(p.y)).concat([Math.log10(peak * 1.3)]);
  const [x0, x1, y0, y1] = [Math.floor(Math.min(...xs)), Math.ceil(Math.max(...xs)), Math.floor(Math.max(Math.min(...ys), Math.max(...ys) - 6)), Math.max(...ys)];
  const x = v => left + (width - left - 12) * (Math.log10(v) - x0) / (x1 - x0), y = v => 10 + (height - bottom - 10) * (1 - (Math.max(y0, Math.log10(v)) - y0) / (y1 - y0));
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "roofline of operations" });
  for (let e = x0; e <= x1; ++e) {
    const text = svg("text", { x: x(10 ** e), y: height - 16, "text-anchor": "middle", class: "soft" });
    text.textContent = String(10 ** e);
    drawn.append(svg("line", { x1: x(10 ** e), x2: x(10 ** e), y1: 10, y2: height - bottom, style: "stroke:var(--line)" }), text);
  }
  for (let e = y0; e <= y1; ++e) {
    const text = svg("text", { x: left - 6, y: y(10 ** e) + 4, "text-anchor": "end", class: "soft" });
    text.textContent = String(10 ** e);
    drawn.append(svg("line", { x1: left, x2: width - 12, y1: y(10 ** e), y2: y(10 ** e), style: "stroke:var(--line)" }), text);
  }
  const axis = svg("text", { x: width - 12, y: height - 3, "text-anchor": "end", class: "soft" });
  axis.textContent = "FLOP per byte; upwards TFLOP/s";
  drawn.append(axis);
  for (const [name, tflops] of [["FP16", roof.fp16_tflops], ["TF32", roof.tf32_tflops], ["FP32", roof.fp32_tflops]]) {
    if (!tflops || !roof.bandwidth_gbs) continue;
    const ridge = tflops * 1e3 / roof.bandwidth_gbs, start = 10 ** x0;
    drawn.append(svg("polyline", { points: `${x(start)},${y(start * roof.bandwidth_gbs / 1e3)} ${x(ridge)},${y(tflops)} ${x(10 ** x1)},${y(tflops)}`, style: "fill:none;stroke:var(--soft);stroke-width:1.5" }));
    const text = svg("text", { x: width - 14, y: y(tflops) - 4, "text-anchor": "end", class: "soft" });
    text.textContent = name;
    drawn.append(text);
  }
  const most = Math.max(...points.map(p => p.o.ms));
  for (const p of points) {
    const circle = svg("circle", { cx: x(p.x), cy: y(p.y), r: 2 + 14 * Math.sqrt(p.o.ms / most), style: "fill:var(--accent);opacity:.55;stroke:var(--paper)" });
    const title = svg("title");
    title.textContent = `${p.o.operation || p.o.family} (${p.o.dtype}): ${ms(p.o.ms, 3)} ms in ${p.o.calls}, ${p.y.toFixed(1)} TFLOP/s, ${p.x.toFixed(1)} FLOP/byte`;
    circle.append(title);
    drawn.append(circle);
  }
  return drawn;
}

// How much of what is possible at this intensity an operation reaches.
function roofShare(roof, o) {
  const peak = { fp16: roof.fp16_tflops, bf16: roof.fp16_tflops, tf32: roof.tf32_tflops, fp32: roof.fp32_tflops }[String(o.dtype).toLowerCase()];
  const limit = Math.min(peak || Infinity, (roof.bandwidth_gbs || Infinity) * o.flops / o.bytes / 1e3);
  return Number.isFinite(limit) && limit > 0 ? o.flops / o.ms / 1e9 / limit : null;
}
