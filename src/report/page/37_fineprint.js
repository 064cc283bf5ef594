// A word as a shell takes it.
const quoted = text => /^[\w.:=,+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

function fineprint() {
  const node = section("fineprint", "What was assumed, and what made this page", null, "Fine print");
  const said = new Map(), assumed = new Set();
  for (const p of [...(data.advise ? [data.advise.combined, ...(data.advise.advice || [])] : []), ...(data.whatif ? data.whatif.predictions : [])]) {
    for (const text of p?.not_modelled || []) said.set(text, [...(said.get(text) || []), p.whatif]);
    if (p && !p.declined) for (const name of partsOf(p.whatif)) assumed.add(name);
  }
  const figures = [["steps", summary.step_source ? `found by ${summary.step_source}; shown is ${summary.step}, the median unless another was asked for` : null],
    ["step without the profiler", summary.measured_ms !== null && summary.measured_ms !== undefined ? "as measured" : `estimated (${summary.unprofiled_origin || "from the trace"}), ${ms(summary.unprofiled_low_ms)} … ${ms(summary.unprofiled_high_ms)} ms`],
    ["replay", summary.error_pct === undefined || summary.error_pct === null ? "not known" : `the unchanged step comes out ${summary.error_pct.toFixed(2)} % off the trace`],
    ["layers", summary.named_layer_coverage_pct !== undefined && summary.named_layer_coverage_pct !== null ? `${summary.named_layer_coverage_pct.toFixed(0)} % of GPU time belongs to named layers` : null],
    ["timelines", "the first one is the recorded step, profiler included; the predicted one is without the profiler"]];
  node.append(el("dl", { class: "kv" }, figures.filter(([, text]) => text).flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])));
  const assumptions = [...assumed].sort().filter(name => (data.assumes || {})[name]);
  if (assumptions.length) node.append(el("h3", {}, "Assumed"), el("ul", {}, assumptions.map(name => el("li", {}, `${name}: ${data.assumes[name]}`))));
  if (said.size) node.append(el("h3", {}, "Not modelled"), el("ul", {}, [...said].map(([text, names]) => el("li", {}, `${text} (${shorten([...new Set(names)].join(", "), 160)})`))));
  node.append(el("h3", {}, "Made by"), el("pre", {}, `${data.command}\nforetrace ${data.version}`));
  const asked = [["doctor", "what the trace lacks"], ["summary", "where the time goes"], data.best ? [`whatif TRACE ${data.waterfall.map(f => quoted(f.whatif)).join(" ")} --stack`, "the predicted timeline's step"] : null, data.advise ? ["advise", "what each change gives"] : null, data.gpus ? ["gpus", "other GPUs"] : null, data.scale ? [`scale TRACE --fabric ${data.scale.network}`, "more workers"] : null, data.ranks ? ["ranks", "who waits for whom"] : null].filter(Boolean);
  const command = verb => el("code", {}, `foretrace ${verb.includes("TRACE") ? verb : `${verb} TRACE`}`);
  node.append(el("h3", {}, "The same in a terminal"), details(asked.map(([verb, what]) => [what, command(verb)])), el("p", { class: "note" }, `TRACE is ${data.file}.`));
}
