// What changes made on every rank do to the job, all ranks simulated together, and what each rank does before and after the best of them.

function jobChanges(node) {
  const job = data.job;
  if (!job) return;
  node.append(el("h3", {}, "What changes of all ranks give"));
  if (job.declined) {
    node.append(el("p", { class: "note" }, `Nothing can be predicted for the job: ${job.declined}.`));
    return;
  }
  const rows = [], seen = new Set(), best = job.best?.predictions[0];
  for (const p of [job.advise?.combined, job.advise?.larger_batch, ...(job.advise?.advice || []), best, ...job.whatif.predictions]) {
    if (p && !p.declined && !seen.has(p.whatif)) { seen.add(p.whatif); rows.push(p); }
  }
  node.append(el("p", { class: "note" }, `Predicted, from ${ms(job.today_ms)} ms a step without the profiler. Memory is that of the fullest rank.`));
  if (rows.length) {
    node.append(table([{ name: "change", get: r => r.whatif, show: r => cellName(r.whatif), text: true, long: true }, { name: "ms", get: r => r.ms, show: r => ms(r.ms) }, { name: "10 % … 90 %", get: r => r.low_ms, show: r => range(r.low_ms, r.high_ms), extra: true },
      { name: "samples/s", get: r => r.gain ?? r.speedup, show: r => gain(r.gain ?? r.speedup) }, { name: "peak memory", get: r => r.peak_bytes, show: r => gb(r.peak_bytes), extra: true }, { name: "effort", get: r => r.effort ?? "", text: true, extra: true }], rows, { caption: "changes of the job", sort: [3, -1], open: openChange }));
  }
  jobRanks(node, job.whatif.job?.ranks || [], best);
}

// Waits and memory of each rank, today and with the best change.
function jobRanks(node, today, best) {
  if (!today.length) return;
  const then = new Map((best?.ranks || []).map(r => [r.rank, r])), after = (r, get, show) => then.has(r.rank) ? show(get(then.get(r.rank))) : "–";
  const columns = [{ name: "rank", get: r => r.rank }, { name: "waits ms", get: r => r.wait_ms, show: r => ms(r.wait_ms) }, { name: "GPU ms", get: r => r.gpu_ms, show: r => ms(r.gpu_ms), extra: true }, { name: "waited for", get: r => r.waited_for, extra: true }, { name: "peak memory", get: r => r.peak_bytes, show: r => gb(r.peak_bytes) }];
  if (then.size) columns.push({ name: "then waits ms", get: r => then.get(r.rank)?.wait_ms ?? 0, show: r => after(r, x => x.wait_ms, ms) }, { name: "then GPU ms", get: r => then.get(r.rank)?.gpu_ms ?? 0, show: r => after(r, x => x.gpu_ms, ms), extra: true }, { name: "then peak", get: r => then.get(r.rank)?.peak_bytes ?? 0, show: r => after(r, x => x.peak_bytes, gb), extra: true });
  node.append(el("h3", {}, then.size ? `Each rank without the profiler, today and with ${shorten(best.whatif, 60)}` : "Each rank without the profiler"), table(columns, today, { caption: "ranks without the profiler" }));
}
