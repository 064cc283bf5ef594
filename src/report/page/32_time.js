// The timeline sets these once its tasks are read.
let showInTimeline = () => {}, tasksNamed = () => [];

// What a clicked row of a table shows: more of its figures, its longest tasks, and the way to the timeline.
function openTasks(name, rows) {
  const found = tasksNamed(name, 6);
  return el("div", { class: "tasks" }, details([["name", name.length > 60 ? shorten(name, 600) : null], ...rows]),
    found.length ? el("div", { class: "tools" }, el("span", { class: "note" }, "longest tasks:"), found.map(one => press(`${shorten(kernelName(one.name), 48)} ${one.length}`, "select it in the timeline", one.show))) : null,
    el("div", { class: "tools" }, press("show in the timeline", "search the timeline for it", () => showInTimeline(name))));
}

function whereTimeGoes() {
  const node = section("time", "Where the time goes", summary.no_graph || "Of the traced step: CPU times include what the profiler added, GPU times are those of the kernels. Click a row for its tasks.", "Time");
  const rate = [{ name: "TFLOP/s", get: r => r.achieved_tflops, show: r => known(r.achieved_tflops) ? r.achieved_tflops.toFixed(1) : "–", extra: true }, { name: "MFU", get: r => r.mfu, show: r => pct(r.mfu), extra: true }];
  const gpu = { name: "GPU ms", get: r => r.gpu_ms, show: r => ms(r.gpu_ms, 3) }, cpu = { name: "CPU ms", get: r => r.cpu_ms, show: r => ms(r.cpu_ms, 3), extra: true }, tasks = { name: "GPU tasks", get: r => r.gpu_tasks, extra: true };
  const more = r => [["CPU ms, profiler included", known(r.cpu_ms) ? ms(r.cpu_ms, 3) : null], ["GPU tasks", r.gpu_tasks], ["MFU", known(r.mfu) ? `${pct(r.mfu)}, ${r.achieved_tflops.toFixed(1)} TFLOP/s` : null]];
  const other = r => Math.max(0, r.gpu_ms - (r.forward_gpu_ms || 0) - (r.backward_gpu_ms || 0));
  const own = r => phaseColour[String(r.layer).replace(/[()]/g, "")] || phaseColour.other;
  const split = r => [[r.forward_gpu_ms, phaseColour.forward], [r.backward_gpu_ms, phaseColour.backward], [other(r), own(r)]];
  const one = colour => r => [[r.gpu_ms ?? r.total_ms, colour]];
  tabbed(node, "tables", {
    phases: [summary.phases, [{ name: "phase", get: r => r.phase, text: true }, gpu, bars("", summary.phases, r => [[r.gpu_ms, phaseColour[r.phase]]]), cpu, ...rate, tasks], r => openTasks(r.phase, more(r))],
    layers: [summary.layers, [{ name: "layer", get: r => r.layer, show: r => cellName(r.layer), text: true, long: true }, { name: "type", get: r => r.type, text: true, extra: true }, gpu, bars("", summary.layers, split, legend([[phaseColour.forward, "forward"], [phaseColour.backward, "backward"], [phaseColour.other, "other"]])),
      { name: "forward", get: r => r.forward_gpu_ms, show: r => ms(r.forward_gpu_ms, 3), extra: true }, { name: "backward", get: r => r.backward_gpu_ms, show: r => ms(r.backward_gpu_ms, 3), extra: true }, ...rate, cpu, tasks],
    r => openTasks(r.layer, [["type", r.type], ["forward", `${ms(r.forward_gpu_ms, 3)} ms`], ["backward", `${ms(r.backward_gpu_ms, 3)} ms`], ["other", other(r) > 5e-4 ? `${ms(other(r), 3)} ms` : null], ...more(r)])],
    operations: [summary.operations, [{ name: "operation", get: r => r.operation, show: r => cellName(r.operation), text: true, long: true }, { name: "calls", get: r => r.calls, extra: true }, gpu, bars("", summary.operations, one("var(--accent)")), cpu, tasks], r => openTasks(r.operation, [["calls", r.calls], ...more(r)])],
    kernels: [summary.kernels, [{ name: "kernel", get: r => r.kernel, show: r => kernelName(r.kernel), text: true, long: true }, { name: "launches", get: r => r.launches, extra: true }, { name: "total ms", get: r => r.total_ms, show: r => ms(r.total_ms, 3) },
      bars("", summary.kernels, one("var(--accent)")), { name: "mean µs", get: r => r.mean_us, show: r => ms(r.mean_us), extra: true }, { name: "share", get: r => r.share, show: r => pct(r.share), extra: true }],
    r => openTasks(r.kernel, [["launches", r.launches], ["mean", `${ms(r.mean_us)} µs`], ["share of GPU time", pct(r.share)]])],
  }, "layers");
}
