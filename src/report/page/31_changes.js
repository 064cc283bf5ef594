const partsOf = whatif => whatif.split(" + ").map(text => text.split(":")[0]);
// How far such changes were off where they were really made: of several, the one that was off most.
function trackRecord(whatif) {
  const all = partsOf(whatif).map(name => ({ name, ...(data.track_record || {})[name] }));
  if (!all.length || all.some(k => k.rows === undefined)) return null;
  return all.reduce((a, b) => (b.step_pct ?? -1) > (a.step_pct ?? -1) ? b : a);
}
function predictedBefore(r) {
  const past = trackRecord(r.whatif);
  if (!past) return el("span", { class: "doubt" }, "never measured");
  const said = known(past.step_pct) ? `${past.step_pct.toFixed(1)} % off` : known(past.gpu_pct) ? `GPU time ${past.gpu_pct.toFixed(1)} % off` : "not judged";
  return el("span", { class: r.validated ? null : "doubt" }, past.rows ? `${said} in ${past.rows}` : said);
}

// Everything that is known of how far such a change was off, and on what.
function pastErrors(past) {
  const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const on = [count(past.models, "model"), past.networks ? count(past.networks, "network") : null].filter(Boolean).join(", ");
  const said = [known(past.step_pct) ? `step off by ${past.step_pct} % on average of ${count(past.rows, "row")}, ${past.worst_step_pct} % at worst (${past.worst_row})` : "no step could be judged",
    known(past.gpu_pct) ? `GPU time ${past.gpu_pct} %` : null, known(past.memory_pct) ? `peak memory ${past.memory_pct} %` : null, `measured on ${on}`,
    known(past.blind_pct) ? `${count(past.blind_rows, "row")} predicted before their measurements were used: ${past.blind_pct} %` : null,
    known(past.unseen_pct) ? `${count(past.unseen_rows, "row")} of networks that nothing was fitted on: ${past.unseen_pct} %` : null];
  return said.filter(Boolean).join("; ");
}

// All bands on one logarithmic axis, so that none is cut off.
function bandScale(rows) {
  const all = rows.flatMap(r => [r.low_ms ?? r.ms, r.high_ms ?? r.ms]).concat(data.today_ms).filter(v => v > 0);
  const low = Math.min(...all) / 1.04, high = Math.max(...all) * 1.04, share = v => Math.log(Math.max(low, v) / low) / Math.log(high / low), at = v => `${100 * share(v)}%`;
  const ticks = logTicks(low, high, 4), ends = [ticks[0], ticks[ticks.length - 1]].filter(v => Math.abs(share(v) - share(data.today_ms)) > 0.35);
  const labels = [el("i", { class: "tick today", style: { left: at(data.today_ms) } }, `today ${ms(data.today_ms, 0)}`), ...ticks.map(v => el("i", { class: ends.includes(v) ? "tick end" : "tick", style: { left: at(v) } }, tickText(v)))];
  const axis = thinned(el("span", { class: "axis", "aria-hidden": "true" }, labels), () => labels);
  const draw = r => el("span", { class: "band", "aria-hidden": "true" }, el("i", { class: "now", style: { left: at(data.today_ms) } }), ticks.map(v => el("i", { class: "grid", style: { left: at(v) } })),
    el("i", { class: "span", style: { left: at(r.low_ms ?? r.ms), width: `calc(${at(r.high_ms ?? r.ms)} - ${at(r.low_ms ?? r.ms)})` } }), el("i", { class: "dot", style: { left: at(r.ms) } }));
  return { axis, draw };
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
  const node = section("changes", "What each change gives", `Predicted, from ${ms(data.today_ms)} ms today. The band is the 10th to the 90th percentile, on a logarithmic axis. “Predicted before” says how far the step was off, on average, in so many measured steps with such a change. Click a row to see what the change is.`, "Changes");
  if (answered.length) {
    const scale = bandScale(answered);
    node.append(table([
      { name: "change", get: r => r.whatif, show: r => cellName(r.whatif), text: true, long: true },
      { name: "ms", get: r => r.ms, show: r => ms(r.ms) },
      { name: "10 % … 90 %", get: r => r.low_ms, show: r => range(r.low_ms, r.high_ms), extra: true },
      { name: "band", get: r => r.high_ms - r.low_ms, show: scale.draw, kind: "bandcell", head: scale.axis },
      { name: "samples/s", get: r => r.gain ?? r.speedup, show: r => gain(r.gain ?? r.speedup) },
      { name: "peak memory", get: r => r.peak_bytes, show: r => el("span", { class: r.fits === false ? "worse" : null }, gb(r.peak_bytes) + (r.fits === false ? " does not fit" : "")), extra: true },
      { name: "effort", get: r => r.effort ?? "", text: true, extra: true },
      { name: "predicted before", get: r => trackRecord(r.whatif)?.step_pct ?? null, show: predictedBefore, extra: true },
    ], answered, { caption: "changes", search: answered.length > 8, sort: [4, -1], open: openChange }));
  }
  if (declined.length) node.append(el("details", {}, el("summary", {}, `${declined.length} do not apply`), el("ul", {}, declined.map(r => el("li", {}, `${r.whatif}: ${r.declined}`)))));
}
function waterfallSection() {
  if (!data.waterfall?.length) return;
  const steps = [{ name: "today", to: data.today_ms }];
  let from = data.today_ms;
  for (const fall of data.waterfall) { steps.push({ name: fall.whatif, from, to: fall.ms }); from = fall.ms; }
  steps.push({ name: "together", to: from });
  section("waterfall", "From today to the best combination", "Each change on top of those above it.", "Waterfall").append(waterfall(steps));
}

// What a change is: how to switch it on, what it assumes, what it leaves out, how it fared before.
function openChange(r) {
  const rows = [["change", r.whatif.length > 60 ? r.whatif : null], ["band", `${range(r.low_ms, r.high_ms)} ms`], ["peak memory", known(r.peak_bytes) ? gb(r.peak_bytes) : null], ["effort", r.effort]];
  if (r.code) rows.push(["switched on by", el("pre", {}, r.code)]);
  rows.push(["costs", r.origin ? `${r.origin}${r.validated ? "" : ", not validated"}` : null]);
  for (const name of new Set(partsOf(r.whatif))) {
    const past = (data.track_record || {})[name];
    rows.push([`${name} assumes`, (data.assumes || {})[name]]);
    rows.push([`${name} before`, past ? pastErrors(past) : "never measured"]);
  }
  for (const part of r.parts || []) rows.push([part.whatif, `without it ${ms(part.without_ms)} ms: ${part.why}`]);
  if (r.bound_ms) rows.push(["not below", `${ms(r.bound_ms)} ms (${r.bound_source})${r.bound_decided ? ": the bound decided, the models predict less" : ""}`]);
  if (r.band_reasons?.length) rows.push(["why this wide", el("ul", {}, r.band_reasons.map(reason => el("li", {}, reason)))]);
  if (r.not_modelled?.length) rows.push(["not modelled", r.not_modelled.join("; ")]);
  return el("div", { id: "change" }, details(rows));
}
