// Plans as pictures: what each costs, its stages over time, the memory of its GPUs, and the search by sizes of tensor and pipeline parallel.

const plans = (data.report.plans || data.report.predictions).filter(p => !p.declined), search = data.report.verb === "plan", best = plans[data.best];
// A long plan breaks behind its commas.
const planName = p => (p.plan || "one GPU").replaceAll(",", ",\u200b");
const answerNode = document.getElementById("answer");
document.querySelector("header .file").replaceChildren(el("b", {}, data.file), ` · ${data.report.step} · ${data.report.device} · ${data.report.network}, ${data.report.gpus_per_node} GPUs a node`);
answerNode.querySelector("h1").textContent = data.answer.replaceAll(/,(?=\S)/g, ",\u200b");

const PARTS = [["computing", "var(--forward)"], ["bubble", "var(--wait)"], ["inside layers", "var(--communication)"], ["between stages", "var(--data)"], ["gradients and parameters", "var(--backward)"]];
// Of the busiest GPU: what is none of the others computes.
function partsOf(p) {
  const rest = [p.bubble_ms, p.exposed.groups_ms, p.exposed.stages_ms, p.exposed.gradients_ms];
  return [Math.max(0, p.ms - rest.reduce((sum, x) => sum + x, 0)), ...rest];
}
function figures(p) {
  const one = (name, value, note) => el("div", { class: "figure" }, el("dt", {}, name), el("dd", {}, el("b", {}, value), note ? el("span", {}, note) : null));
  return el("dl", { class: "figures" }, [
    one("Step", `${ms(p.ms)} ms`, `${range(p.low_ms, p.high_ms)} ms`),
    known(p.tokens_per_s) ? one("Tokens per second", Math.round(p.tokens_per_s).toLocaleString("en"), `on ${plural(p.workers, "GPU")}`) : null,
    known(p.mfu) ? one("MFU", pct(p.mfu)) : null,
    known(p.peak_bytes) ? one("Peak memory", gb(p.peak_bytes), known(data.report.memory_gb) ? `of ${data.report.memory_gb.toFixed(1)} GB${p.fits === false ? ": it does not fit" : ""}` : null) : null,
    known(p.usd_per_million_tokens) ? one("Cost", `${p.usd_per_million_tokens.toFixed(3)} USD`, "a million tokens") : null]);
}

function plansSection() {
  if (!plans.length) return;
  answerNode.append(figures(best), shares("Where its step goes", partsOf(best).map((t, i) => [PARTS[i][0], t / best.ms, PARTS[i][1], `${ms(t)} ms`])));
  if (plans.length < 2) return;
  const more = data.fit - plans.length, node = section("plans", "Plans", search ? `The fastest that fit.${more > 0 ? ` ${more.toLocaleString("en")} more fit.` : ""}` : "In the order asked for.");
  const bar = p => el("div", { class: "bar" }, partsOf(p).map((t, i) => el("i", { title: `${PARTS[i][0]}: ${ms(t)} ms`, style: { width: `${100 * t / p.ms}%`, background: PARTS[i][1] } })));
  node.append(table([{ name: "plan", get: planName, text: true, long: true }, { name: "ms", get: p => p.ms, show: p => ms(p.ms) }, { name: "10 % … 90 %", get: p => p.low_ms, show: p => range(p.low_ms, p.high_ms), extra: true },
    { name: "", get: p => p.bubble_ms, show: bar, kind: "bars", extra: true }, { name: "peak GB", get: p => p.peak_bytes, show: p => known(p.peak_bytes) ? (p.peak_bytes / 1e9).toFixed(1) : "–" },
    { name: "MFU", get: p => p.mfu, show: p => pct(p.mfu) }, { name: "tokens/s", get: p => p.tokens_per_s, show: p => known(p.tokens_per_s) ? Math.round(p.tokens_per_s).toLocaleString("en") : "–", extra: true }], plans,
  { caption: "plans", open: p => details([["step", `${ms(p.ms)} ms`], ...partsOf(p).map((t, i) => [PARTS[i][0], `${ms(t)} ms`]), ["GPUs", p.workers], ["micro-batches", p.microbatches], ["samples in a step", p.global_batch]]) }), legend(PARTS.map(([name, colour]) => [colour, name])));
}
