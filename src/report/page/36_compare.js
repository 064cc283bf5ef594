// Before and after: the first thing on a page that was given older recordings.

function comparedFigures(c) {
  const change = (before, after) => before ? `${after >= before ? "+" : "−"}${Math.abs(100 * (after / before - 1)).toFixed(1)} %` : "";
  const one = (name, key, show) => known(c.before[key]) && known(c.after[key]) ? figure(name, `${show(c.before[key])} → ${show(c.after[key])}`, change(c.before[key], c.after[key])) : null;
  return [one("Step, ms", "ms", ms), one("GPU work, ms", "gpu_ms", ms), one("Peak memory, GB", "peak_bytes", v => (v / 1e9).toFixed(2)), one("Launches", "launches", String), one("Waits", "syncs", String)].filter(Boolean);
}

// What made the difference, as bars to the left (faster) and to the right.
function causes(list) {
  const shown = list.filter(c => Math.abs(c.ms) > 0.0005), most = Math.max(...shown.map(c => Math.abs(c.ms)));
  if (!shown.length) return null;
  return el("div", { class: "fall causes" }, shown.flatMap(c => [el("span", { class: "name" }, c.what, c.where ? el("span", { class: "soft" }, ` (${c.where})`) : null),
    el("span", { class: "track middle" }, el("i", { class: c.ms <= 0 ? "less" : "more", style: { width: `${50 * Math.abs(c.ms) / most}%`, left: c.ms <= 0 ? `${50 - 50 * Math.abs(c.ms) / most}%` : "50%" } })),
    el("span", { class: `figure ${c.ms <= 0 ? "better" : "worse"}` }, `${c.ms <= 0 ? "−" : "+"}${ms(Math.abs(c.ms))} ms`)]));
}

function compareSection() {
  const c = data.compare;
  if (!c) return;
  const node = section("compare", "Before and after"), [first, ...rest] = c.sentences;
  node.querySelector("h2").after(el("h1", {}, first));
  node.append(el("dl", { class: "figures" }, comparedFigures(c)), ...rest.map(sentence => el("p", {}, sentence)));
  if (known(c.before.traced_ms) && known(c.after.traced_ms)) node.append(el("p", { class: "note" }, `With the profiler the recorded steps take ${ms(c.before.traced_ms)} ms before and ${ms(c.after.traced_ms)} ms after.`));
  const why = causes(c.causes || []);
  if (why) node.append(el("h3", {}, "What made the difference"), why);
  const p = c.prediction;
  if (p && !p.declined) {
    node.append(el("h3", {}, `Predicted with ${shorten(p.whatif)}, and measured`), table([{ name: "family of kernels", get: r => r.family, text: true }, { name: "predicted ms", get: r => r.predicted_ms, show: r => ms(r.predicted_ms, 3) },
      { name: "measured ms", get: r => r.measured_ms, show: r => ms(r.measured_ms, 3) }, { name: "off", get: r => r.predicted_ms / r.measured_ms - 1, show: r => r.measured_ms ? pct(r.predicted_ms / r.measured_ms - 1) : "–" }], p.families, { caption: "predicted and measured" }));
  }
  const columns = (what, rows) => [{ name: what, get: r => r.name, show: r => kernelName(r.name), text: true, long: true }, { name: "before ms", get: r => r.before_ms, show: r => ms(r.before_ms, 3), extra: true }, { name: "after ms", get: r => r.after_ms, show: r => ms(r.after_ms, 3), extra: true },
    { name: "change ms", get: r => r.after_ms - r.before_ms, show: r => el("span", { class: r.after_ms > r.before_ms ? "worse" : "better" }, ms(r.after_ms - r.before_ms, 3)) }, both(rows),
    { name: "count", get: r => r.before_count, extra: true }, { name: "then", get: r => r.after_count, extra: true }];
  const t = c.tables, part = (rows, what) => [rows, columns(what, rows), r => openTasks(r.name, [["before", `${ms(r.before_ms, 3)} ms in ${r.before_count}`], ["after", `${ms(r.after_ms, 3)} ms in ${r.after_count}`]])];
  tabbed(node, "before and after", { phases: part(t.phases, "phase, GPU"), "CPU phases": part(t.cpu_phases, "phase, CPU as traced"), families: part(t.families, "family of kernels"), layers: part(t.layers, "layer"), operations: part(t.operations, "operation, GPU"), "CPU operations": part(t.cpu_operations, "operation, CPU as traced"), kernels: part(t.kernels, "kernel") }, "families");
}
// Before above after, on one scale.
function both(rows) {
  const longest = Math.max(0, ...(rows || []).map(r => Math.max(r.before_ms, r.after_ms)));
  return { name: "before, after", get: r => Math.max(r.before_ms, r.after_ms), kind: "bars", show: r => el("span", { class: "twice" }, bar([[r.before_ms, "var(--other)"]], longest), bar([[r.after_ms, r.after_ms > r.before_ms ? "var(--bad)" : "var(--good)"]], longest)) };
}
