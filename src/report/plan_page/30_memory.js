// Memory of each GPU of a pipeline against what a GPU has.

const HELD = [["parameters, gradients and optimizer", "var(--forward)", r => r.states_bytes], ["activations", "var(--backward)", r => r.activation_bytes], ["everything else", "var(--other)", r => Math.max(0, r.peak_bytes - r.states_bytes - r.activation_bytes)]];

function memoryChart(p, most) {
  const limit = known(data.report.memory_gb) ? data.report.memory_gb * 1e9 : Infinity;
  return chart(width => {
    const row = 22, left = 52, right = 70, top = 16, bottom = 22, height = top + row * p.ranks.length + bottom, x = bytes => left + (width - left - right) * bytes / most;
    const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${planName(p)}: ${p.ranks.map((r, i) => `GPU ${i} ${gb(r.peak_bytes)}`).join(", ")}` });
    for (const t of linearTicks(most / 1e9, Math.max(3, Math.round(width / 140)))) {
      drawn.append(svg("line", { x1: x(t * 1e9), x2: x(t * 1e9), y1: top, y2: height - bottom, class: "grid" }), svgText(t ? tickText(t) : "0 GB", { x: x(t * 1e9), y: height - 5, "text-anchor": t ? "middle" : "start", class: "soft" }));
    }
    p.ranks.forEach((r, i) => {
      const y = top + row * i + 3;
      drawn.append(svgText(`GPU ${i}`, { x: left - 6, y: y + 12, "text-anchor": "end", class: "soft" }));
      let from = 0;
      for (const [name, colour, get] of HELD) {
        const bytes = Math.max(0, Math.min(get(r), r.peak_bytes - from));
        drawn.append(withTip(svg("rect", { x: x(from), y, width: Math.max(0, x(from + bytes) - x(from)), height: row - 6, style: `fill:${colour}` }), () => [el("b", {}, name), ` ${gb(bytes)} on GPU ${i}; ${plural(r.blocks, "block")}, ${tickText(r.in_flight)} micro-batches in flight`]));
        from += bytes;
      }
      drawn.append(svgText(gb(r.peak_bytes, 1), { x: x(r.peak_bytes) + 6, y: y + 12, class: r.peak_bytes > limit ? "worse halo" : "soft halo" }));
    });
    if (known(data.report.memory_gb)) drawn.append(svg("line", { x1: x(limit), x2: x(limit), y1: top - 4, y2: height - bottom, class: "limit" }), svgText(`the GPU has ${data.report.memory_gb.toFixed(1)} GB`, { x: x(limit) - 4, y: 10, "text-anchor": "end", class: "soft" }));
    return drawn;
  });
}

function planMemorySection() {
  const shown = plans.filter(p => (!search || p === best || p.actions.length) && p.ranks.length && p.ranks.every(r => known(r.peak_bytes)));
  if (!shown.length) return;
  const node = section("memory", "Memory of each GPU", "At its fullest moment. GPUs that share a stage hold the same.", "Memory");
  const most = Math.max((data.report.memory_gb || 0) * 1e9, ...shown.flatMap(p => p.ranks.map(r => r.peak_bytes))) * 1.02;
  for (const p of shown) node.append(el("h3", {}, planName(p)), memoryChart(p, most));
  node.append(legend(HELD.map(([name, colour]) => [colour, name])));
}
