function ranks(job) {
  const node = section("ranks", "Ranks", `${job.world_size} ranks; the step takes ${ms(job.traced_ms)} ms on aligned clocks, ${ms(job.without_stragglers_ms)} without stragglers.`);
  node.append(table([{ name: "rank", get: r => r.rank }, { name: "step ms", get: r => r.step_ms, show: r => ms(r.step_ms) }, { name: "waits ms", get: r => r.wait_ms, show: r => ms(r.wait_ms) }, { name: "moves data ms", get: r => r.transfer_ms, show: r => ms(r.transfer_ms) }, { name: "arrived last", get: r => r.arrived_last }, { name: "on the critical path ms", get: r => r.critical_ms, show: r => ms(r.critical_ms) }, { name: "clock offset µs", get: r => r.offset_ns, show: r => r.clock_known === false ? "unknown" : `${ms(r.offset_ns / 1e3)} ± ${ms((r.offset_error_ns ?? 0) / 1e3)}` }, { name: "drift ppm", get: r => r.drift_ppm, show: r => ms(r.drift_ppm) }], job.ranks, { caption: "ranks" }));
  if (job.clocks) node.append(el("p", { class: "note" }, `Clocks of ${job.clocks.hosts} host${job.clocks.hosts === 1 ? "" : "s"}: collectives end within ${ms(job.clocks.end_spread_us)} µs of each other on aligned clocks, ${ms(job.clocks.raw_end_spread_us)} µs as recorded; ${job.clocks.violations_left} of ${job.clocks.violations_before} impossible orders are left.`));
  node.append(el("p", { class: job.stragglers?.length ? "worse" : null }, job.stragglers?.length ? `Stragglers: ${job.stragglers.map(s => typeof s === "object" ? `rank ${s.rank}` : `rank ${s}`).join(", ")}.` : "No stragglers."));
  const list = (job.collectives || []).slice(0, 200), numbers = job.ranks.map(r => r.rank);
  if (list.length && numbers.length <= 64) {
    const longest = Math.max(1e-9, ...list.flatMap(c => c.members.map(m => m.wait_ms)));
    node.append(el("h3", {}, "Who waits in which collective, ms"), el("div", { class: "scroll matrix", tabindex: 0, role: "region", "aria-label": "waits by collective and rank" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { class: "text" }, "collective"), el("th", {}, "MB"), el("th", {}, "transfer"), numbers.map(n => el("th", {}, `rank ${n}`)))),
      el("tbody", {}, list.map(c => el("tr", {}, el("td", { class: "text" }, c.kind), el("td", {}, ms(c.bytes / 1e6)), el("td", {}, ms(c.transfer_ms, 3)), numbers.map(n => { const m = c.members.find(x => x.rank === n); return el("td", m ? { style: { background: `color-mix(in srgb, var(--bad) ${Math.round(60 * m.wait_ms / longest)}%, transparent)` } } : {}, m ? ms(m.wait_ms, 3) : ""); })))))));
    if (job.collectives.length > list.length) node.append(el("p", { class: "note" }, `${job.collectives.length - list.length} more collectives are left out.`));
  }
  for (const text of [...(job.notes || []), ...(job.not_modelled || [])]) node.append(el("p", { class: "note" }, text));
}

function compared(c) {
  const node = section("compare", "Before and after");
  for (const sentence of c.sentences) node.append(el("p", {}, sentence));
  const figures = [["step ms", "ms"], ["traced ms", "traced_ms"], ["GPU ms", "gpu_ms"], ["CPU ms", "cpu_ms"], ["peak memory", "peak_bytes"], ["launches", "launches"], ["waits", "syncs"]].filter(([, f]) => c.before[f] !== null && c.before[f] !== undefined && c.after[f] !== null && c.after[f] !== undefined);
  const shown = (f, v) => f === "peak_bytes" ? gb(v) : f === "launches" || f === "syncs" ? v : ms(v);
  node.append(table([{ name: "", get: r => r[0], text: true }, { name: "before", get: r => c.before[r[1]], show: r => shown(r[1], c.before[r[1]]) }, { name: "after", get: r => c.after[r[1]], show: r => shown(r[1], c.after[r[1]]) }, { name: "%", get: r => c.after[r[1]] / c.before[r[1]], show: r => c.before[r[1]] ? `${(100 * (c.after[r[1]] / c.before[r[1]] - 1)).toFixed(1)} %` : "–" }], figures, { caption: "step before and after" }));
  const p = c.prediction;
  if (p && !p.declined) {
    node.append(el("h3", {}, `Predicted with ${shorten(p.whatif)}, and measured`), table([{ name: "family of kernels", get: r => r.family, text: true }, { name: "predicted ms", get: r => r.predicted_ms, show: r => ms(r.predicted_ms, 3) }, { name: "measured ms", get: r => r.measured_ms, show: r => ms(r.measured_ms, 3) }, { name: "off", get: r => r.predicted_ms / r.measured_ms - 1, show: r => r.measured_ms ? pct(r.predicted_ms / r.measured_ms - 1) : "–" }], p.families, { caption: "predicted and measured" }));
  }
  const columns = what => [{ name: what, get: r => r.name, show: r => kernelName(r.name), text: true, long: true }, { name: "before ms", get: r => r.before_ms, show: r => ms(r.before_ms, 3) }, { name: "after ms", get: r => r.after_ms, show: r => ms(r.after_ms, 3) }, { name: "change ms", get: r => r.after_ms - r.before_ms, show: r => el("span", { class: r.after_ms > r.before_ms ? "worse" : "better" }, ms(r.after_ms - r.before_ms, 3)) }, { name: "count", get: r => r.before_count }, { name: "then", get: r => r.after_count }];
  const t = c.tables, into = row => showInTimeline(row.name);
  tabbed(node, "before and after", { phases: [t.phases, columns("phase, GPU"), into], "CPU phases": [t.cpu_phases, columns("phase, CPU")], families: [t.families, columns("family of kernels")], layers: [t.layers, columns("layer"), into], operations: [t.operations, columns("operation, GPU"), into], "CPU operations": [t.cpu_operations, columns("operation, CPU"), into], kernels: [t.kernels, columns("kernel"), into] }, "families");
}
