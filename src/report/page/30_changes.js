const summary = data.summary;
document.querySelector("header .file").textContent = `${data.file} · ${summary.step ?? ""} · ${summary.device ?? ""}`;
document.querySelector("#answer h1").textContent = data.answer;
document.querySelector("#answer .more").textContent = [summary.unprofiled_bottleneck, summary.measured_ms === null || summary.measured_ms === undefined ? "The step without the profiler is estimated from the trace; a measured step makes every figure here surer." : null].filter(Boolean).join(". ");

let showInTimeline = () => {};

const partsOf = whatif => whatif.split(" + ").map(text => text.split(":")[0]);
// How far such changes were off where they were really made: of several, the one that was off most.
function trackRecord(whatif) {
  const known = partsOf(whatif).map(name => ({ name, ...(data.track_record || {})[name] }));
  if (!known.length || known.some(k => k.rows === undefined)) return null;
  return known.reduce((a, b) => (b.step_pct ?? -1) > (a.step_pct ?? -1) ? b : a);
}
function predictedBefore(r) {
  const past = trackRecord(r.whatif), rows = `${r.measured_rows ?? 0} steps of ${r.measured_models ?? 0} models`;
  if (!past) return el("span", { class: "doubt", title: "no measured step shows this change" }, "never measured");
  const said = past.step_pct !== null ? `${past.step_pct.toFixed(1)} % off` : past.gpu_pct !== null ? `GPU time ${past.gpu_pct.toFixed(1)} % off` : "not judged";
  const more = `${past.name} was made in ${rows}; predictions of the step were off by ${past.step_pct ?? "–"} % on average and ${past.worst_step_pct ?? "–"} % at worst, of GPU time by ${past.gpu_pct ?? "–"} %, of peak memory by ${past.memory_pct ?? "–"} %`;
  return el("span", { class: r.validated ? null : "doubt", title: more }, past.rows ? `${said} in ${past.rows}` : said);
}

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
  const node = section("changes", "What each change gives", `Predicted, from ${ms(data.today_ms)} ms today. The band holds the 10th to the 90th percentile. “Predicted before”: how far the step was off, on average, in so many measured steps in which such a change was really made. A row opens what the change is.`);
  // A change that makes the step many times as long would leave no room for the others.
  const most = Math.min(Math.max(data.today_ms, ...answered.map(r => r.high_ms ?? r.ms)), 2 * data.today_ms), opened = el("div", { id: "change", role: "status", "aria-live": "polite", hidden: true });
  node.append(table([
    { name: "change", get: r => r.whatif, text: true, long: true },
    { name: "ms", get: r => r.ms, show: r => ms(r.ms) },
    { name: "10 % … 90 %", get: r => r.low_ms, show: r => `${ms(r.low_ms)} … ${ms(r.high_ms)}` },
    { name: "band", get: r => r.high_ms - r.low_ms, show: r => band(r, most) },
    { name: "samples/s", get: r => r.gain ?? r.speedup, show: r => el("span", { class: (r.gain ?? r.speedup) >= 1 ? "better" : "worse" }, times(r.gain ?? r.speedup)) },
    { name: "peak memory", get: r => r.peak_bytes, show: r => el("span", { class: r.fits === false ? "worse" : null }, gb(r.peak_bytes) + (r.fits === false ? " does not fit" : "")) },
    { name: "effort", get: r => r.effort ?? "", text: true },
    { name: "predicted before", get: r => trackRecord(r.whatif)?.step_pct ?? null, show: predictedBefore },
  ], answered, { caption: "changes", search: answered.length > 8, sort: [4, -1], onPick: row => openChange(opened, row) }), opened);
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
// What a change is: how to switch it on, what it assumes, what it leaves out, how it fared before.
function openChange(node, r) {
  const list = el("dl", { class: "kv" }), say = (name, value) => { if (value) list.append(el("dt", {}, name), el("dd", {}, value)); };
  if (r.code) say("switched on by", el("pre", {}, r.code));
  say("costs", r.origin ? `${r.origin}${r.validated ? "" : ", not validated"}` : null);
  for (const name of new Set(partsOf(r.whatif))) {
    say(`${name} assumes`, (data.assumes || {})[name]);
    const past = (data.track_record || {})[name];
    say(`${name} before`, past ? `step off by ${past.step_pct ?? "–"} % on average, ${past.worst_step_pct ?? "–"} % at worst, in ${past.rows} rows; GPU time ${past.gpu_pct ?? "–"} %, peak memory ${past.memory_pct ?? "–"} %` : "never measured");
  }
  for (const part of r.parts || []) say(part.whatif, `without it ${ms(part.without_ms)} ms: ${part.why}`);
  if (r.bound_ms) say("not below", `${ms(r.bound_ms)} ms (${r.bound_source})${r.bound_decided ? ": the bound decided, the models predict less" : ""}`);
  if (r.band_reasons?.length) say("why this wide", el("ul", {}, r.band_reasons.map(why => el("li", {}, why))));
  if (r.not_modelled?.length) say("not modelled", r.not_modelled.join("; "));
  node.replaceChildren(el("b", {}, r.whatif), list);
  node.hidden = false;
}
function band(r, most) {
  const width = 120, x = v => Math.min(width - 4, width * v / most);
  const drawn = svg("svg", { viewBox: `0 0 ${width} 14`, width, height: 14, "aria-hidden": "true" });
  drawn.append(svg("line", { x1: x(data.today_ms), x2: x(data.today_ms), y1: 0, y2: 14, style: "stroke:var(--soft);stroke-dasharray:2 2" }),
    svg("rect", { x: x(r.low_ms), y: 4, width: Math.max(1, x(r.high_ms) - x(r.low_ms)), height: 6, rx: 3, style: "fill:var(--accent);opacity:.4" }),
    svg("circle", { cx: x(r.ms), cy: 7, r: 3.5, style: "fill:var(--accent)" }));
  return drawn;
}
