// From one figure to another, one change after the other. Steps: {name, to, from, note}; without `from` the whole figure is drawn.
function waterfall(steps) {
  const most = Math.max(...steps.map(s => Math.max(s.from ?? 0, s.to))), at = value => `${100 * value / most}%`;
  return el("div", { class: "fall", role: "img", "aria-label": steps.map(s => `${s.name} ${ms(s.to)} ms`).join(", ") }, steps.flatMap(s => {
    const whole = s.from === undefined, low = whole ? 0 : Math.min(s.from, s.to), high = whole ? s.to : Math.max(s.from, s.to);
    const kind = whole ? "whole" : s.to <= s.from ? "less" : "more";
    return [el("span", { class: "name" }, s.name),
      el("span", { class: "track" }, el("i", { class: kind, style: { left: at(low), width: at(high - low) } })),
      el("span", { class: whole ? "figure" : `figure ${kind === "less" ? "better" : "worse"}` }, whole ? `${ms(s.to)} ms` : `${s.to <= s.from ? "−" : "+"}${ms(Math.abs(s.to - s.from))} ms`)];
  }));
}

// Parts of a whole as one bar. Parts: [name, share 0 to 1, colour, figure].
function shares(title, parts) {
  const shown = parts.filter(([, share]) => share > 0.0005);
  return el("div", { class: "shares" }, el("h3", {}, title),
    el("div", { class: "stack", role: "img", "aria-label": shown.map(([name, share]) => `${name} ${pct(share)}`).join(", ") },
      shown.map(([name, share, colour, figure]) => withTip(el("i", { style: { width: `${100 * share}%`, background: colour } }), () => [el("b", {}, name), ` ${pct(share)}, ${figure}`]))),
    el("div", { class: "legend" }, shown.map(([name, share, colour, figure]) => el("span", {}, swatch(colour), `${name} ${pct(share)} `, el("span", { class: "soft" }, figure)))));
}

// A line with its band. Points: {x, y, low, high}; x on a logarithmic axis of base 2.
function curve(points, { label, unit, extra = [] }) {
  return chart(width => {
    const height = 240, left = 48, right = 24, bottom = 40, top = 22;
    const xs = points.map(p => Math.log2(p.x)), min = Math.min(...xs), max = Math.max(...xs);
    const ticks = linearTicks(Math.max(...points.map(p => Math.max(p.high ?? p.y, p.y))) * 1.02), most = Math.max(ticks[ticks.length - 1], ...points.map(p => p.high ?? p.y));
    const x = p => left + (width - left - right) * (max > min ? (Math.log2(p.x) - min) / (max - min) : 0.5);
    const y = value => top + (height - top - bottom) * (1 - value / most);
    const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
    for (const value of ticks) {
      drawn.append(svg("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" }), svgText(tickText(value), { x: left - 8, y: y(value) + 4, "text-anchor": "end", class: "soft" }));
    }
    drawn.append(svgText("ms", { x: left - 8, y: 10, "text-anchor": "end", class: "soft" }), svgText(unit, { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle", class: "soft" }));
    if (points.every(p => known(p.low))) {
      const band = points.map(p => `${x(p)},${y(p.high)}`).concat(points.slice().reverse().map(p => `${x(p)},${y(p.low)}`));
      drawn.append(svg("polygon", { points: band.join(" "), style: "fill:var(--accent);opacity:.15" }));
    }
    for (const [name, colour] of [["y", "var(--accent)"], ...extra]) {
      drawn.append(svg("polyline", { points: points.map(p => `${x(p)},${y(p[name] ?? 0)}`).join(" "), style: `fill:none;stroke:${colour};stroke-width:2` }));
    }
    for (const p of points) {
      const dot = svg("circle", { cx: x(p), cy: y(p.y), r: 5, style: "fill:var(--accent);stroke:var(--paper);stroke-width:1.5" });
      drawn.append(withTip(dot, () => [el("b", {}, `${p.x} ${unit}`), ` ${ms(p.y)} ms [${range(p.low, p.high)}]`]), svgText(p.x, { x: x(p), y: height - 22, "text-anchor": "middle", class: "soft" }));
    }
    return drawn;
  });
}

function stacked(memory) {
  const count = memory.kinds[0].bytes.length, base = memory.kinds[0].bytes.map(() => memory.start_bytes);
  const totals = base.map((b, i) => b + memory.kinds.reduce((sum, k) => sum + k.bytes[i], 0)), top = Math.max(memory.peak_bytes, ...totals);
  return chart(width => {
    const height = 280, left = 58, right = 12, bottom = 26, above = 22, ticks = linearTicks(top / 1e9), most = Math.max(top, ticks[ticks.length - 1] * 1e9);
    const x = i => left + (width - left - right) * i / Math.max(1, count - 1), y = v => above + (height - bottom - above) * (1 - v / most);
    const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `memory over the step, peak ${gb(memory.peak_bytes)}` });
    const area = (low, high, colour) => drawn.append(svg("polygon", { points: high.map((v, i) => `${x(i)},${y(v)}`).concat(low.map((v, i) => [v, i]).reverse().map(([v, i]) => `${x(i)},${y(v)}`)).join(" "), style: `fill:${colour};opacity:.85` }));
    area(base.map(() => 0), base, colours[0]);
    let low = base;
    memory.kinds.forEach((kind, k) => {
      const high = low.map((v, i) => v + kind.bytes[i]);
      area(low, high, colours[k % colours.length]);
      low = high;
    });
    for (const v of ticks) {
      drawn.append(svg("line", { x1: left, x2: width - right, y1: y(v * 1e9), y2: y(v * 1e9), class: "grid" }), svgText(`${tickText(v)} GB`, { x: left - 6, y: y(v * 1e9) + 4, "text-anchor": "end", class: "soft" }));
    }
    let free = 0;
    for (const [at, name] of [[0, "forward"], [memory.backward_from, "backward"], [memory.update_from, "update"]]) {
      drawn.append(svg("line", { x1: x(at), x2: x(at), y1: above, y2: height - bottom, class: "border" }));
      // To the right of its line, or to the left where the chart ends.
      const wide = 7.5 * name.length, begin = x(at) + 3 + wide > width ? x(at) - 3 - wide : x(at) + 3;
      if (begin < free) continue;
      drawn.append(svgText(name, { x: begin, y: height - 8, class: "soft" }));
      free = begin + wide + 6;
    }
    const peak = x(memory.peak_at), right_half = peak > width / 2;
    drawn.append(svg("line", { x1: peak, x2: peak, y1: above - 4, y2: height - bottom, style: "stroke:var(--bad);stroke-dasharray:4 3" }),
      svgText(`peak ${gb(memory.peak_bytes)}`, { x: peak + (right_half ? 4 : -4), y: 12, "text-anchor": right_half ? "end" : "start", style: "fill:var(--bad)" }));
    return drawn;
  });
}
