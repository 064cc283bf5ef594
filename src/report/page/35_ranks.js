// All ranks of a job: who waits for whom, and who holds the others up. All figures are of the traced step, on one clock.

function stragglerText(s) {
  const worst = s.worst ? `, ${ms(s.worst_excess_ms)} ms of it in ${shorten(kernelName(s.worst), 60)}` : "";
  return `Rank ${s.rank}, ${s.cause}: costs the step ${ms(s.cost_ms)} ms. It takes ${ms(s.excess_ms)} ms more than rank ${s.compared_with}${worst}.`;
}

function ranksSection() {
  const job = data.ranks;
  if (!job) return null;
  if (job.connected === false) {
    section("ranks", "Ranks").append(el("p", {}, `These ${job.ranks.length} traces share no communication: they are no job, and the rest of the page is about one of them.`));
    return null;
  }
  const late = job.stragglers || [], there = job.ranks.filter(r => r.in_step !== false);
  const node = section("ranks", "Ranks", `${job.missing?.length ? `${job.ranks.length} of ${job.world_size} ranks` : `All ${job.world_size} ranks`}, ${job.step}, on aligned clocks. Of the traced step, profiler included.`);
  if (job.parallel) node.append(el("p", {}, `${job.parallel}: ${job.parallel_text}`), known(job.bubble_ms) ? el("p", { class: "note" }, `Pipeline bubble: ${ms(job.bubble_ms)} ms of a rank's step, in which no compute kernel runs while a receive is under way.`) : "");
  node.append(late.length ? el("ul", { class: "late" }, late.slice(0, 8).map(s => el("li", {}, stragglerText(s)))) : el("p", {}, "No rank holds the others up by 1 % of the step or more."));
  if (late.length > 8) node.append(el("p", { class: "note" }, `${late.length - 8} more cost less.`));
  node.append(el("p", { class: "note" }, `The step of all ranks takes ${ms(job.traced_ms)} ms; with every rank as fast as the typical one, ${ms(job.without_stragglers_ms)} ms.`));
  const slow = new Set(late.map(s => s.rank)), offset = r => r.clock_known === false ? "unknown" : `${ms(r.offset_ns / 1e3)} ± ${ms((r.offset_error_ns ?? 0) / 1e3)}`;
  node.append(table([{ name: "rank", get: r => r.rank, text: true, show: r => slow.has(r.rank) ? el("span", { class: "worse" }, `${r.rank} straggler`) : String(r.rank) }, { name: "step ms", get: r => r.step_ms, show: r => ms(r.step_ms) },
    { name: "waits ms", get: r => r.wait_ms, show: r => ms(r.wait_ms) }, bars("waits", job.ranks, r => [[r.wait_ms, "var(--wait)"]]), { name: "moves data ms", get: r => r.transfer_ms, show: r => ms(r.transfer_ms), extra: true },
    { name: "arrived last", get: r => r.arrived_last, show: r => `${r.arrived_last} of ${r.collectives ?? "–"}`, extra: true }, { name: "on the critical path ms", get: r => r.critical_ms, show: r => ms(r.critical_ms), extra: true },
    { name: "clock offset µs", get: r => r.offset_ns, show: offset, extra: true }, { name: "drift ppm", get: r => r.drift_ppm, show: r => ms(r.drift_ppm), extra: true }], job.ranks,
  { caption: "ranks", open: r => details([["file", String(r.file || "").split(/[/\\]/).pop()], ["begins", `${ms(r.start_ms)} ms after the first rank`], ["stage", r.stage >= 0 ? r.stage : null], ["computes", known(r.compute_ms) ? `${ms(r.compute_ms)} ms` : null], ["bubble", r.bubble_ms ? `${ms(r.bubble_ms)} ms` : null], ["moves data", `${ms(r.transfer_ms)} ms`], ["on the critical path", `${ms(r.critical_ms)} ms`], ["clock", `${offset(r)} µs ahead of rank ${job.ranks[0].rank}`], ["straggler", late.filter(s => s.rank === r.rank).map(stragglerText).join(" ")]]) }));
  if (there.length < job.ranks.length) node.append(el("p", { class: "note" }, `${job.ranks.length - there.length} ranks lack this step.`));
  if (job.clocks && job.collectives?.length) node.append(el("p", { class: "note" }, `Clocks of ${plural(job.clocks.hosts, "host")}: collectives end within ${ms(job.clocks.end_spread_us)} µs of each other on aligned clocks, ${ms(job.clocks.raw_end_spread_us)} µs as recorded; ${job.clocks.violations_left} of ${job.clocks.violations_before} impossible orders are left.`));
  const lanes = el("div", { id: "lanes" });
  node.append(lanes);
  jobChanges(node);
  groupsTable(node, job);
  waitsByCollective(node, job);
  for (const text of [...(job.notes || []), ...(job.not_modelled || []).map(t => `Not modelled: ${t}`)]) node.append(el("p", { class: "note" }, text));
  return lanes;
}

// The groups of ranks that communicate, and how well.
function groupsTable(node, job) {
  if (!job.groups?.length) return;
  const rate = x => known(x) ? x.toFixed(1) : "–", of = list => list.length > 8 ? `${list.slice(0, 8).join(", ")} and ${list.length - 8} more` : list.join(", ");
  node.append(el("h3", {}, "Groups that communicate"), table([{ name: "group", get: g => `${g.kind} ${g.description || g.name}`, text: true, long: true }, { name: "ranks", get: g => of(g.ranks), text: true }, { name: "calls", get: g => g.operations, extra: true }, { name: "MB", get: g => g.bytes, show: g => g.bytes > 0 ? ms(g.bytes / 1e6) : "–", extra: true },
    { name: "waits ms", get: g => g.wait_ms, show: g => ms(g.wait_ms) }, { name: "transfer ms", get: g => g.transfer_ms, show: g => ms(g.transfer_ms) }, { name: "exposed ms", get: g => g.exposed_ms, show: g => ms(g.exposed_ms), extra: true }, { name: "GB/s", get: g => g.algorithm_gbs, show: g => rate(g.algorithm_gbs), extra: true }, { name: "fabric GB/s", get: g => g.fabric_gbs, show: g => rate(g.fabric_gbs), extra: true }], job.groups, { caption: "groups" }));
}

// Waits as a matrix: the longest collectives, in the order of time.
function waitsByCollective(node, job) {
  const numbers = job.ranks.map(r => r.rank), all = job.collectives || [], most = 60, widest = 32;
  if (!all.length || numbers.length > widest) return;
  const cost = c => c.transfer_ms + c.longest_wait_ms, list = all.slice().sort((a, b) => cost(b) - cost(a)).slice(0, most).sort((a, b) => a.at_ms - b.at_ms);
  const longest = Math.max(1e-9, ...list.flatMap(c => c.members.map(m => m.wait_ms)));
  const cell = (c, n) => {
    const m = c.members.find(x => x.rank === n);
    if (!m) return el("td", {}, "");
    const last = c.last_rank === n;
    return el("td", { class: last ? "last" : null, style: { background: `color-mix(in srgb, var(--bad) ${Math.round(40 * m.wait_ms / longest)}%, transparent)` } }, last ? "last" : ms(m.wait_ms, 3));
  };
  node.append(el("h3", {}, "Who waits in which collective, ms"), el("div", { class: "scroll matrix", tabindex: 0, role: "region", "aria-label": "waits by collective and rank" },
    el("table", {}, el("thead", {}, el("tr", {}, el("th", { class: "text" }, "collective"), ["at ms", "MB", "transfer"].map(name => el("th", { class: "extra" }, name)), numbers.map(n => el("th", {}, `rank ${n}`)))),
      el("tbody", {}, list.map(c => el("tr", {}, el("td", { class: "text" }, known(c.from) ? `${c.kind} ${c.from} → ${c.to}` : c.kind), [ms(c.at_ms), known(c.bytes) ? ms(c.bytes / 1e6) : "–", ms(c.transfer_ms, 3)].map(said => el("td", { class: "extra" }, said)), numbers.map(n => cell(c, n))))))));
  if (all.length > list.length) node.append(el("p", { class: "note" }, `The ${list.length} longest of ${all.length} collectives.`));
}
