// FLOP per byte against FLOP per second, both logarithmic; a circle's area is the operation's time.
const ROOFS = [["FP16 and BF16", "fp16_tflops"], ["TF32", "tf32_tflops"], ["FP32", "fp32_tflops"]];
const measurable = roof => roof.operations.filter(o => o.flops > 0 && o.bytes > 0 && o.ms > 0).map(o => ({ o, x: o.flops / o.bytes, y: o.flops / o.ms / 1e9 }));

function roofline(roof, step) {
  const points = measurable(roof), peak = Math.max(...ROOFS.map(([, key]) => roof[key] || 0), 1e-3);
  const xs = points.map(p => Math.log10(p.x)).concat([0, 3]), ys = points.map(p => Math.log10(p.y)).concat([Math.log10(peak * 1.6)]);
  const x0 = Math.floor(Math.min(...xs)), x1 = Math.ceil(Math.max(...xs)), y1 = Math.max(...ys), y0 = Math.floor(Math.max(Math.min(...ys), y1 - 6));
  return chart((width, printing) => {
    const height = printing ? 250 : Math.min(400, Math.max(280, width * 0.55)), left = 50, right = 14, bottom = 42, top = 22;
    const x = v => left + (width - left - right) * (Math.log10(v) - x0) / (x1 - x0), y = v => top + (height - bottom - top) * (1 - (Math.max(y0, Math.log10(v)) - y0) / (y1 - y0));
    const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "roofline of the operations" });
    for (let e = x0; e <= x1; ++e) {
      drawn.append(svg("line", { x1: x(10 ** e), x2: x(10 ** e), y1: top, y2: height - bottom, class: "grid" }), svgText(tickText(10 ** e), { x: x(10 ** e), y: height - 24, "text-anchor": e === x1 ? "end" : "middle", class: "soft" }));
    }
    for (let e = y0; e <= y1; ++e) {
      drawn.append(svg("line", { x1: left, x2: width - right, y1: y(10 ** e), y2: y(10 ** e), class: "grid" }), svgText(tickText(10 ** e), { x: left - 6, y: y(10 ** e) + 4, "text-anchor": "end", class: "soft" }));
    }
    drawn.append(svgText("TFLOP/s", { x: 2, y: 11, class: "soft" }), svgText("FLOP per byte", { x: (left + width - right) / 2, y: height - 5, "text-anchor": "middle", class: "soft" }));
    let above = -Infinity;
    for (const [name, key] of ROOFS) {
      if (!roof[key] || !roof.bandwidth_gbs) continue;
      const ridge = roof[key] * 1e3 / roof.bandwidth_gbs, start = Math.max(10 ** x0, 10 ** y0 * 1e3 / roof.bandwidth_gbs);
      drawn.append(svg("polyline", { points: `${x(start)},${y(start * roof.bandwidth_gbs / 1e3)} ${x(ridge)},${y(roof[key])} ${x(10 ** x1)},${y(roof[key])}`, class: "roof" }));
      // Above its line, or below it where the line above is too near.
      const line = y(roof[key]), text = line - above < 20 ? line + 13 : line - 5;
      drawn.append(svgText(`${name} ${tickText(roof[key])}`, { x: width - right, y: text, "text-anchor": "end", class: "soft halo" }));
      above = Math.max(line, text);
    }
    if (step) {
      drawn.append(svg("line", { x1: left, x2: width - right, y1: y(step), y2: y(step), style: "stroke:var(--warn);stroke-width:1.5;stroke-dasharray:5 4" }),
        svgText(`the step: ${tickText(step)}`, { x: left + 6, y: y(step) - 5, class: "halo", style: "fill:var(--warn)" }));
    }
    const most = Math.max(...points.map(p => p.o.ms)), size = Math.min(16, width / 40);
    for (const p of points.slice().sort((a, b) => b.o.ms - a.o.ms)) {
      const circle = svg("circle", { cx: x(p.x), cy: y(p.y), r: 2 + size * Math.sqrt(p.o.ms / most), class: "work" });
      drawn.append(withTip(circle, () => [el("b", {}, `${p.o.operation || p.o.family} (${p.o.dtype})`), el("br"),
        `${ms(p.o.ms, 3)} ms in ${plural(p.o.calls, "kernel")} · ${p.y.toFixed(1)} TFLOP/s · ${p.x.toFixed(1)} FLOP/byte${known(p.o.share_of_roof) ? ` · ${pct(p.o.share_of_roof)} of the roof` : ""}`]));
    }
    return drawn;
  });
}

function rooflineSection() {
  const roof = data.roofline;
  if (!roof || !measurable(roof).length) return null;
  const shown = measurable(roof).map(p => p.o);
  const node = section("roofline", "Roofline", `How near the kernels of each operation come to what ${roof.device || "the GPU"} can do. A circle's area is their time.`);
  node.append(roofline(roof, summary.achieved_tflops), el("details", {}, el("summary", {}, `${shown.length} operations as a table`),
    table([{ name: "operation", get: o => o.operation || "–", show: o => cellName(o.operation || "–"), text: true, long: true }, { name: "family", get: o => o.family, text: true, extra: true }, { name: "type", get: o => o.dtype, text: true },
      { name: "ms", get: o => o.ms, show: o => ms(o.ms, 3) }, { name: "kernels", get: o => o.calls, extra: true }, { name: "FLOP/byte", get: o => o.flops / o.bytes, show: o => (o.flops / o.bytes).toFixed(2), extra: true },
      { name: "TFLOP/s", get: o => o.flops / o.ms, show: o => (o.flops / o.ms / 1e9).toFixed(2) }, { name: "GB/s", get: o => o.bytes / o.ms, show: o => (o.bytes / o.ms / 1e6).toFixed(0), extra: true },
      { name: "of the roof", get: o => o.share_of_roof, show: o => pct(o.share_of_roof) }], shown,
    { caption: "roofline", search: shown.length > 8, sort: [3, -1], open: o => openTasks(o.operation || o.family, [["family", o.family], ["kernels", o.calls], ["FLOP/byte", (o.flops / o.bytes).toFixed(2)], ["GB/s", (o.bytes / o.ms / 1e6).toFixed(0)]]) })));
  return node;
}
