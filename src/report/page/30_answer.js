// The first screen: what a step costs today without the profiler, what limits it, how well it uses the GPU, and the best answer.

function head() {
  const step = summary.step ? String(summary.step) : "";
  document.querySelector("header .file").replaceChildren(el("b", {}, data.file), [step, summary.device, data.ranks ? `${data.rank === undefined ? "" : `rank ${data.rank} of `}${plural(data.ranks.ranks.length, "rank")}` : null].filter(Boolean).map(text => ` · ${text}`).join(""));
}

const boundBy = text => { const first = text.split(":")[0]; return first[0].toUpperCase() + first.slice(1); };
const why = text => text && text.includes(":") ? text.slice(text.indexOf(":") + 1).trim() : "";
// Numbers keep their unit on their line.
const figure = (name, value, note) => el("div", { class: "figure" }, el("dt", {}, name), el("dd", {}, el("b", {}, value), note ? el("span", {}, note.replace(/(\d) (?=%|ms|GB|×)/g, "$1\u00a0")) : null));

function stepFigure() {
  if (data.declined || !known(data.today_ms)) return figure("Step as traced", `${ms(summary.traced_ms)} ms`, "with the profiler; nothing can be predicted");
  if (known(summary.measured_ms)) return figure("Step", `${ms(data.today_ms)} ms`, "measured without the profiler");
  return figure("Step", `${ms(data.today_ms)} ms`, `${range(summary.unprofiled_low_ms, summary.unprofiled_high_ms)} ms, without the profiler`);
}
function mfuFigure() {
  if (!known(summary.mfu)) return known(summary.achieved_tflops) ? figure("Achieved", `${summary.achieved_tflops.toFixed(1)} TFLOP/s`, summary.no_mfu) : summary.no_mfu ? figure("MFU", "–", summary.no_mfu) : null;
  const again = known(summary.hfu) && summary.hfu > summary.mfu * 1.001 ? `; HFU ${pct(summary.hfu)}, recomputation included` : "";
  return figure("MFU", pct(summary.mfu), `${summary.achieved_tflops.toFixed(1)} of ${tickText(summary.peak_tflops)} TFLOP/s${again}`);
}
function throughputFigure() {
  if (known(summary.tokens_per_s)) return figure("Throughput", `${Math.round(summary.tokens_per_s).toLocaleString("en")} tokens/s`, "");
  return known(summary.unprofiled_samples_per_s) ? figure("Throughput", `${tickText(summary.unprofiled_samples_per_s)} samples/s`, "") : null;
}
function memoryFigure() {
  const peak = data.memory?.peak_bytes ?? summary.memory?.[0]?.allocated_bytes;
  return known(peak) ? figure("Peak memory", gb(peak), data.memory?.peak_operation ? `in ${shorten(data.memory.peak_operation, 40).replaceAll("::", "::\u200b")}` : "") : null;
}
function bestFigure() {
  if (!data.best) return null;
  return figure(data.whatif?.predictions?.length ? "Predicted" : "Best found", `${ms(data.best.ms)} ms`, `${range(data.best.low_ms, data.best.high_ms)} ms, ${times(data.today_ms / data.best.ms)} as fast`);
}
function ranksFigure() {
  const job = data.ranks;
  if (!job) return null;
  return figure("Ranks", job.ranks.length < job.world_size ? `${job.ranks.length} of ${job.world_size}` : String(job.ranks.length), job.stragglers?.length ? plural(new Set(job.stragglers.map(s => s.rank)).size, "straggler") : "no stragglers");
}
// What the profiler did, in one line; nothing where only the recorded step is known.
function profilerLine() {
  const added = summary.traced_ms - data.today_ms;
  if (data.declined || !known(data.today_ms)) return null;
  const much = added > 0.0005 * data.today_ms ? `The profiler added ${ms(added)} ms to the recorded step (${ms(summary.traced_ms)} ms).` : "The profiler added nothing that shows.";
  return known(summary.measured_ms) ? much : `${much} The step without it is estimated; a measured one (--measured-ms) makes every figure more certain.`;
}

function answer() {
  head();
  const node = document.getElementById("answer"), verdict = data.declined ? summary.bottleneck : summary.unprofiled_bottleneck;
  navigation.append(el("a", { href: "#answer" }, "Answer"));
  const title = el(data.compare ? "h2" : "h1", {}, data.answer);
  node.querySelector("h1").replaceWith(title);
  node.append(el("dl", { class: "figures" }, [stepFigure(), verdict ? figure("Verdict", boundBy(verdict), why(verdict).split(";")[0]) : null, mfuFigure(), throughputFigure(), memoryFigure(), bestFigure(), ranksFigure()].filter(Boolean)));
  const line = profilerLine();
  if (line) node.append(el("p", { class: "note" }, line));
}

// Where the time of the step without the profiler goes, and how well each phase uses the GPU.
function useSection() {
  const traced = Boolean(data.declined) || !summary.unprofiled_breakdown, parts = traced ? summary.breakdown : summary.unprofiled_breakdown, path = traced ? summary.critical_path : summary.unprofiled_critical_path;
  if (!parts && !summary.phases?.length) return null;
  const node = section("use", "What the step does", traced ? "Of the traced step, profiler included." : "Of the step without the profiler.", "Use");
  const one = (from, names) => names.map(([key, name, colour]) => [name, (from[`${key}_pct`] ?? 0) / 100, colour, `${ms(from[`${key}_ms`])} ms`]);
  if (parts) node.append(shares("Working at each moment", one(parts, [["gpu_only", "GPU only", "var(--forward)"], ["both", "CPU and GPU", "var(--optimizer)"], ["cpu_only", "CPU only", "var(--backward)"], ["idle", "nothing", "var(--line)"]])));
  if (parts?.exposed_communication_ms > 0) node.append(el("p", { class: "note" }, `${ms(parts.exposed_communication_ms)} ms of communication is hidden by nothing.`));
  if (path) node.append(shares("On the critical path", one(path, [["gpu", "GPU", "var(--forward)"], ["cpu", "CPU", "var(--backward)"], ["communication", "communication", "var(--communication)"], ["waits", "latencies and gaps", "var(--line)"]])));
  const list = (summary.phases || []).filter(p => p.gpu_ms > 0);
  if (list.length) {
    node.append(el("h3", {}, "GPU time by phase"), el("p", { class: "note" }, "Of the traced step; kernels take as long without the profiler."), table([{ name: "phase", get: r => r.phase, show: r => el("span", {}, swatch(phaseColour[r.phase]), r.phase), text: true }, { name: "GPU ms", get: r => r.gpu_ms, show: r => ms(r.gpu_ms, 2) },
      bars("", list, r => [[r.gpu_ms, phaseColour[r.phase]]]), { name: "TFLOP/s", get: r => r.achieved_tflops, show: r => known(r.achieved_tflops) ? r.achieved_tflops.toFixed(1) : "–", extra: true }, { name: "MFU", get: r => r.mfu, show: r => pct(r.mfu) }], list, { caption: "phases" }));
  }
  return node;
}
