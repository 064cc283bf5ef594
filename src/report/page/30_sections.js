const summary = data.summary;
document.querySelector("header .file").textContent = `${data.file} · ${summary.step ?? ""} · ${summary.device ?? ""}`;
document.querySelector("#answer h1").textContent = data.answer;
document.querySelector("#answer .more").textContent = [summary.unprofiled_bottleneck, summary.measured_ms === null || summary.measured_ms === undefined ? "The step without the profiler is estimated from the trace; a measured step makes every figure here surer." : null].filter(Boolean).join(". ");

let showInTimeline = () => {};

function changes() {
  const rows = [], seen = new Set();
  const add = (list, how) => { for (const p of list || []) { if (!seen.has(p.whatif)) { seen.add(p.whatif); rows.push({ ...p, how }); } } };
  if (data.whatif) add(data.whatif.predictions, "asked for");
  if (data.advise) {
    add([data.advise.combined, data.advise.larger_batch].filter(Boolean), "best together");
    add(data.advise.advice, "alone");
  }
  const answered = rows.filter(r => !r.declined), declined = rows.filter(r => r.declined);
  if (!rows.length) return;
  const node = section("changes", "What each change gives", `Predicted, from ${ms(data.today_ms)} ms today. The band holds the 10th to the 90th percentile; “measured rows” says on how many measured steps such a change was tried before.`);
  const most = Math.max(data.today_ms, ...answered.map(r => r.high_ms ?? r.ms));
  node.append(table([
    { name: "change", get: r => r.whatif, text: true, long: true },
    { name: "ms", get: r => r.ms, show: r => ms(r.ms) },
    { name: "10 % … 90 %", get: r => r.low_ms, show: r => `${ms(r.low_ms)} … ${ms(r.high_ms)}` },
    { name: "band", get: r => r.high_ms - r.low_ms, show: r => band(r, most) },
    { name: "samples/s", get: r => r.gain ?? r.speedup, show: r => el("span", { class: (r.gain ?? r.speedup) >= 1 ? "better" : "worse" }, times(r.gain ?? r.speedup)) },
    { name: "peak memory", get: r => r.peak_bytes, show: r => el("span", { class: r.fits === false ? "worse" : null }, gb(r.peak_bytes) + (r.fits === false ? " does not fit" : "")) },
    { name: "effort", get: r => r.effort ?? "", text: true },
    { name: "costs", get: r => r.origin ?? "", text: true },
    { name: "measured rows", get: r => r.measured_rows, show: r => el("span", { class: r.validated ? null : "doubt", title: r.validated ? "" : "not validated" }, `${r.measured_rows ?? 0} of ${r.measured_models ?? 0} models`) },
  ], answered, { caption: "changes", search: answered.length > 8, sort: [4, -1] }));
  if (declined.length) node.append(el("details", {}, el("summary", {}, `${declined.length} do not apply`), el("ul", {}, declined.map(r => el("li", {}, `${r.whatif}: ${r.declined}`)))));
  if (data.waterfall && data.waterfall.length) {
    const steps = [{ name: "today", to: data.today_ms }];
    let from = data.today_ms;
    for (const fall of data.waterfall) { steps.push({ name: fall.whatif, from, to: fall.ms }); from = fall.ms; }
    steps.push({ name: "together", to: from });
    const water = section("waterfall", "From today to the best combination", "Each change on top of those above it.");
    water.append(waterfall(steps));
  }
}
function band(r, most) {
  const width = 120, x = v => width * v / most;
  const drawn = svg("svg", { viewBox: `0 0 ${width} 14`, width, height: 14, "aria-hidden": "true" });
  drawn.append(svg("line", { x1: x(data.today_ms), x2: x(data.today_ms), y1: 0, y2: 14, style: "stroke:var(--soft);stroke-dasharray:2 2" }),
    svg("rect", { x: x(r.low_ms), y: 4, width: Math.max(1, x(r.high_ms) - x(r.low_ms)), height: 6, rx: 3, style: "fill:var(--accent);opacity:.4" }),
    svg("circle", { cx: x(r.ms), cy: 7, r: 3.5, style: "fill:var(--accent)" }));
  return drawn;
}

function whereTimeGoes() {
  const node = section("time", "Where the time goes", summary.bottleneck ? `As traced: ${summary.bottleneck}.` : summary.no_graph);
  const whole = summary.gpu_ms || 1;
  const parts = {
    phases: [summary.phases, [{ name: "phase", get: r => r.phase, text: true }, { name: "GPU ms", get: r => r.gpu_ms, show: r => ms(r.gpu_ms, 3) }, { name: "", get: r => r.gpu_ms, show: r => bar(r.gpu_ms / whole, phaseColour[r.phase]) }, { name: "CPU ms", get: r => r.cpu_ms, show: r => ms(r.cpu_ms, 3) }, { name: "GPU tasks", get: r => r.gpu_tasks }], "phase"],
    layers: [summary.layers, [{ name: "layer", get: r => r.layer, text: true, long: true }, { name: "type", get: r => r.type, text: true }, { name: "GPU ms", get: r => r.gpu_ms, show: r => ms(r.gpu_ms, 3) }, { name: "", get: r => r.gpu_ms, show: r => bar(r.gpu_ms / whole * 4) }, { name: "forward", get: r => r.forward_gpu_ms, show: r => ms(r.forward_gpu_ms, 3) }, { name: "backward", get: r => r.backward_gpu_ms, show: r => ms(r.backward_gpu_ms, 3) }, { name: "CPU ms", get: r => r.cpu_ms, show: r => ms(r.cpu_ms, 3) }, { name: "GPU tasks", get: r => r.gpu_tasks }], "layer"],
    operations: [summary.operations, [{ name: "operation", get: r => r.operation, text: true, long: true }, { name: "calls", get: r => r.calls }, { name: "GPU ms", get: r => r.gpu_ms, show: r => ms(r.gpu_ms, 3) }, { name: "", get: r => r.gpu_ms, show: r => bar(r.gpu_ms / whole) }, { name: "CPU ms", get: r => r.cpu_ms, show: r => ms(r.cpu_ms, 3) }, { name: "GPU tasks", get: r => r.gpu_tasks }], "operation"],
    kernels: [summary.kernels, [{ name: "kernel", get: r => r.kernel, show: r => kernelName(r.kernel), text: true, long: true }, { name: "launches", get: r => r.launches }, { name: "total ms", get: r => r.total_ms, show: r => ms(r.total_ms, 3) }, { name: "", get: r => r.share, show: r => bar(r.share) }, { name: "mean µs", get: r => r.mean_us, show: r => ms(r.mean_us) }, { name: "share", get: r => r.share, show: r => pct(r.share) }], "kernel"],
  };
  const names = Object.keys(parts).filter(n => parts[n][0] && parts[n][0].length);
  const tabs = el("div", { class: "tabs", role: "tablist", "aria-label": "tables" }), panel = el("div", { role: "tabpanel" });
  const open = name => {
    for (const button of tabs.children) button.setAttribute("aria-selected", String(button.dataset.name === name));
    const [rows, columns, field] = parts[name];
    panel.replaceChildren(table(columns, rows, { caption: name, search: rows.length > 6, onPick: row => showInTimeline(row[field]) }));
  };
  for (const name of names) {
    const button = el("button", { class: "tool", type: "button", role: "tab" }, `${name} (${parts[name][0].length})`);
    button.dataset.name = name;
    button.addEventListener("click", () => open(name));
    button.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { const next = tabs.children[(names.indexOf(name) + step + names.length) % names.length]; next.focus(); next.click(); }
    });
    tabs.append(button);
  }
  node.append(tabs, panel);
  if (names.length) open(names.includes("layers") ? "layers" : names[0]);
  node.append(el("p", { class: "note" }, "A row leads to its tasks in the timeline."));
}

function elsewhere() {
  if (data.memory) {
    const node = section("memory", "Memory over the step", `Peak ${gb(data.memory.peak_bytes)}, reached in ${data.memory.peak_operation || "the step"}. The allocator follows the order of the program, so the axis is that order and not time.`);
    node.append(stacked(data.memory), el("div", { class: "legend" }, data.memory.kinds.map((kind, k) => el("span", {}, el("i", { style: { background: colours[k % colours.length] } }), `${kind.kind}: ${gb(kind.at_peak)} at the peak`))));
  }
  if (data.roofline && data.roofline.operations.length) {
    const drawn = roofline(data.roofline);
    if (drawn) section("roofline", "Roofline", `How near each operation comes to what ${data.roofline.device || "the GPU"} can do; a circle's area is its time.`).append(drawn);
  }
  if (data.sliders && data.sliders.some(s => s.values.length > 1)) {
    const node = section("sliders", "If it were …", "Every stop was simulated beforehand; between two stops nothing is known, so there are none.");
    for (const slider of data.sliders.filter(s => s.values.length > 1)) {
      const now = slider.values.findIndex(v => v.x === 1), out = el("output");
      const show = i => { const v = slider.values[i]; out.textContent = `${v.x} ${slider.unit}: ${ms(v.ms)} ms [${ms(v.low_ms)} … ${ms(v.high_ms)}]${v.samples !== 1 ? `, ${times(v.samples * data.today_ms / v.ms)} the samples/s` : ""}`; };
      const range = el("input", { type: "range", min: 0, max: slider.values.length - 1, step: 1, value: Math.max(0, now), "aria-label": slider.name, on: { input: event => show(Number(event.target.value)) } });
      show(Math.max(0, now));
      node.append(el("div", { class: "slider" }, el("span", {}, slider.name), range, out));
    }
  }
  if (data.gpus) {
    const node = section("gpus", "Other GPUs", `The same step, every kernel carried over from ${data.gpus.from}; the CPU stays as it is. Prices as the device files give them.`);
    node.append(table([{ name: "GPU", get: r => r.device, text: true }, { name: "ms", get: r => r.ms, show: r => ms(r.ms) }, { name: "10 % … 90 %", get: r => r.low_ms, show: r => r.declined ? r.declined : `${ms(r.low_ms)} … ${ms(r.high_ms)}` }, { name: "speed-up", get: r => r.speedup, show: r => times(r.speedup) }, { name: "USD/h", get: r => r.usd_per_hour, show: r => r.usd_per_hour ?? "–" }, { name: "USD per 1,000 steps", get: r => r.usd_per_1k_steps, show: r => r.usd_per_1k_steps === null || r.usd_per_1k_steps === undefined ? "–" : r.usd_per_1k_steps.toFixed(3) }, { name: "fits", get: r => r.fits ? 1 : 0, show: r => r.fits === false ? el("span", { class: "worse" }, "no") : r.fits ? "yes" : "–" }], data.gpus.predictions, { caption: "GPUs", sort: [1, 1] }));
  }
  if (data.scale) {
    const node = section("scale", "More workers", `${data.scale.parallel} over ${data.scale.network}, ${data.scale.gpus_per_node} GPUs a node; below it the communication nothing hides.`);
    node.append(curve(data.scale.predictions.map(p => ({ x: p.workers, y: p.ms, low: p.low_ms, high: p.high_ms, exposed: p.exposed_comm_ms })), { label: "step by number of workers", extra: [["exposed", "var(--communication)"]] }),
      table([{ name: "workers", get: r => r.workers }, { name: "ms", get: r => r.ms, show: r => ms(r.ms) }, { name: "10 % … 90 %", get: r => r.low_ms, show: r => `${ms(r.low_ms)} … ${ms(r.high_ms)}` }, { name: "exposed communication ms", get: r => r.exposed_comm_ms, show: r => ms(r.exposed_comm_ms) }, { name: "efficiency", get: r => r.efficiency, show: r => pct(r.efficiency) }], data.scale.predictions, { caption: "workers" }));
  }
  if (data.ranks) ranks(data.ranks);
  if (data.compare) compared(data.compare);
}

function ranks(job) {
  const node = section("ranks", "Ranks", `${job.world_size} ranks; the step takes ${ms(job.traced_ms)} ms on aligned clocks, ${ms(job.without_stragglers_ms)} without stragglers.`);
  node.append(table([{ name: "rank", get: r => r.rank }, { name: "step ms", get: r => r.step_ms, show: r => ms(r.step_ms) }, { name: "waits ms", get: r => r.wait_ms, show: r => ms(r.wait_ms) }, { name: "moves data ms", get: r => r.transfer_ms, show: r => ms(r.transfer_ms) }, { name: "arrived last", get: r => r.arrived_last }, { name: "on the critical path ms", get: r => r.critical_ms, show: r => ms(r.critical_ms) }, { name: "clock offset µs", get: r => r.offset_ns, show: r => ms(r.offset_ns / 1e3) }], job.ranks, { caption: "ranks" }));
  if (job.stragglers && job.stragglers.length) node.append(el("p", { class: "worse" }, `Stragglers: ${job.stragglers.map(s => typeof s === "object" ? `rank ${s.rank}` : `rank ${s}`).join(", ")}.`));
  const list = (job.collectives || []).slice(0, 200), numbers = job.ranks.map(r => r.rank);
  if (!list.length || numbers.length > 64) return;
  const longest = Math.max(1e-9, ...list.flatMap(c => c.members.map(m => m.wait_ms)));
  node.append(el("h3", {}, "Who waits in which collective, ms"), el("div", { class: "scroll matrix", tabindex: 0, role: "region", "aria-label": "waits by collective and rank" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { class: "text" }, "collective"), el("th", {}, "MB"), el("th", {}, "transfer"), numbers.map(n => el("th", {}, `rank ${n}`)))),
    el("tbody", {}, list.map(c => el("tr", {}, el("td", { class: "text" }, c.kind), el("td", {}, ms(c.bytes / 1e6)), el("td", {}, ms(c.transfer_ms, 3)), numbers.map(n => { const m = c.members.find(x => x.rank === n); return el("td", m ? { style: { background: `color-mix(in srgb, var(--bad) ${Math.round(60 * m.wait_ms / longest)}%, transparent)` } } : {}, m ? ms(m.wait_ms, 3) : ""); })))))));
}

function compared(c) {
  const node = section("compare", "Before and after");
  for (const sentence of c.sentences) node.append(el("p", {}, sentence));
  const rows = [...c.tables.families].sort((a, b) => Math.abs(b.after_ms - b.before_ms) - Math.abs(a.after_ms - a.before_ms));
  node.append(table([{ name: "family of kernels", get: r => r.name, text: true }, { name: "before ms", get: r => r.before_ms, show: r => ms(r.before_ms, 3) }, { name: "after ms", get: r => r.after_ms, show: r => ms(r.after_ms, 3) }, { name: "change ms", get: r => r.after_ms - r.before_ms, show: r => el("span", { class: r.after_ms > r.before_ms ? "worse" : "better" }, ms(r.after_ms - r.before_ms, 3)) }, { name: "launches", get: r => r.before_count }, { name: "then", get: r => r.after_count }], rows, { caption: "before and after" }));
}

function fineprint() {
  const node = section("fineprint", "What was assumed, and what made this page");
  const said = new Map();
  for (const p of [...(data.advise ? [data.advise.combined, ...(data.advise.advice || [])] : []), ...(data.whatif ? data.whatif.predictions : [])]) {
    for (const text of p?.not_modelled || []) said.set(text, [...(said.get(text) || []), p.whatif]);
  }
  if (said.size) node.append(el("h3", {}, "Not modelled"), el("ul", {}, [...said].map(([text, names]) => el("li", {}, `${text} (${shorten([...new Set(names)].join(", "), 160)})`))));
  node.append(el("p", { class: "note" }, `The replay of the unchanged step is ${summary.error_pct === undefined ? "not known" : `${summary.error_pct.toFixed(2)} % off the trace`}. The measured timeline is the recorded step, profiler included; the predicted one is without it.`),
    el("h3", {}, "Made by"), el("pre", {}, `${data.command}\nforetrace ${data.version}`));
}
