function elsewhere() {
  if (data.memory) {
    const node = section("memory", "Memory over the step", `Peak ${gb(data.memory.peak_bytes)}, reached in ${data.memory.peak_operation || "the step"}. The allocator follows the order of the program, so the axis is that order and not time.`);
    node.append(stacked(data.memory), el("div", { class: "legend" }, data.memory.kinds.map((kind, k) => el("span", {}, el("i", { style: { background: colours[k % colours.length] } }), `${kind.kind}: ${gb(kind.at_peak)} at the peak`))));
    if (data.memory.held?.length) {
      node.append(el("h3", {}, "What the peak holds"), el("p", { class: "note" }, `${gb(data.memory.start_bytes)} was there when the step began; below, what the step allocated and still held then.${data.memory.held_rest_blocks ? ` ${data.memory.held_rest_blocks} smaller blocks hold ${gb(data.memory.held_rest_bytes)} more.` : ""}`),
        table([{ name: "layer", get: r => r.layer || "–", text: true, long: true }, { name: "operation", get: r => r.operation || "–", text: true, long: true }, { name: "kind", get: r => r.kind, text: true }, { name: "MB", get: r => r.bytes, show: r => (r.bytes / 1e6).toFixed(2) }, { name: "", get: r => r.bytes, show: r => bar(r.bytes / data.memory.peak_bytes * 4) }, { name: "blocks", get: r => r.blocks }], data.memory.held, { caption: "held at the peak", search: data.memory.held.length > 8, limit: 12, onPick: r => showInTimeline(r.layer || r.operation) }));
    }
  }
  if (data.roofline && data.roofline.operations.length) {
    const drawn = roofline(data.roofline), known = data.roofline.operations.filter(o => o.flops > 0 && o.bytes > 0 && o.ms > 0);
    if (drawn) {
      section("roofline", "Roofline", `How near the kernels of each operation come to what ${data.roofline.device || "the GPU"} can do; a circle's area is their time.`).append(drawn,
        el("details", {}, el("summary", {}, `${known.length} operations as a table`), table([{ name: "operation", get: o => o.operation || "–", text: true, long: true }, { name: "family", get: o => o.family, text: true }, { name: "type", get: o => o.dtype, text: true }, { name: "ms", get: o => o.ms, show: o => ms(o.ms, 3) }, { name: "kernels", get: o => o.calls }, { name: "FLOP/byte", get: o => o.flops / o.bytes, show: o => (o.flops / o.bytes).toFixed(2) }, { name: "TFLOP/s", get: o => o.flops / o.ms, show: o => (o.flops / o.ms / 1e9).toFixed(2) }, { name: "GB/s", get: o => o.bytes / o.ms, show: o => (o.bytes / o.ms / 1e6).toFixed(0) }, { name: "of the roof", get: o => roofShare(data.roofline, o), show: o => pct(roofShare(data.roofline, o)) }], known, { caption: "roofline", search: known.length > 8, sort: [3, -1], onPick: o => showInTimeline(o.operation || o.family) })));
    }
  }
  sliders();
  if (data.gpus) {
    const node = section("gpus", "Other GPUs", `The same step, every kernel carried over from ${data.gpus.from}${data.gpus.matched ? ` (${data.gpus.matched})` : ""}; the CPU stays as it is. Prices as the device files or --prices give them.`);
    node.append(table([{ name: "GPU", get: r => r.device, text: true }, { name: "ms", get: r => r.ms, show: r => ms(r.ms) }, { name: "10 % … 90 %", get: r => r.low_ms, show: r => r.declined ? r.declined : `${ms(r.low_ms)} … ${ms(r.high_ms)}` }, { name: "speed-up", get: r => r.speedup, show: r => times(r.speedup) }, { name: "USD/h", get: r => r.usd_per_hour, show: r => r.usd_per_hour ? el("span", { title: r.price_source || "" }, String(r.usd_per_hour)) : "–" }, { name: "USD per 1,000 steps", get: r => r.usd_per_1k_steps, show: r => r.usd_per_1k_steps === null || r.usd_per_1k_steps === undefined ? "–" : r.usd_per_1k_steps.toFixed(3) }, { name: "fits", get: r => r.fits ? 1 : 0, show: r => r.fits === false ? el("span", { class: "worse" }, "no") : r.fits ? "yes" : "–" }], data.gpus.predictions, { caption: "GPUs", search: data.gpus.predictions.length > 8, sort: [1, 1] }));
    const unknown = data.gpus.predictions.filter(r => !r.usd_per_hour).length;
    if (unknown) node.append(el("p", { class: "note" }, `${unknown} of ${data.gpus.predictions.length} have no price; \`foretrace report --prices FILE\` takes a list of yours.`));
  }
  if (data.scale) {
    const node = section("scale", "More workers", `${data.scale.parallel} over ${data.scale.network}, ${data.scale.gpus_per_node} GPUs a node; below it the communication nothing hides.`);
    node.append(curve(data.scale.predictions.map(p => ({ x: p.workers, y: p.ms, low: p.low_ms, high: p.high_ms, exposed: p.exposed_comm_ms })), { label: "step by number of workers", extra: [["exposed", "var(--communication)"]] }),
      el("div", { class: "legend" }, el("span", {}, el("i", { style: { background: "var(--accent)" } }), "step, ms"), el("span", {}, el("i", { style: { background: "var(--communication)" } }), "exposed communication, ms")),
      table([{ name: "workers", get: r => r.workers }, { name: "ms", get: r => r.ms, show: r => ms(r.ms) }, { name: "10 % … 90 %", get: r => r.low_ms, show: r => `${ms(r.low_ms)} … ${ms(r.high_ms)}` }, { name: "exposed communication ms", get: r => r.exposed_comm_ms, show: r => ms(r.exposed_comm_ms) }, { name: "efficiency", get: r => r.efficiency, show: r => pct(r.efficiency) }], data.scale.predictions, { caption: "workers" }));
  }
  if (data.ranks) ranks(data.ranks);
  if (data.compare) compared(data.compare);
}
