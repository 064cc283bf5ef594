function memorySection() {
  const memory = data.memory;
  if (!memory) return;
  const node = section("memory", "Memory over the step", `Peak ${gb(memory.peak_bytes)}, reached in ${memory.peak_operation || "the step"}. The allocator follows the order of the program, so the axis is that order and not time.`, "Memory");
  node.append(stacked(memory), legend(memory.kinds.map((kind, k) => [colours[k % colours.length], `${kind.kind}: ${gb(kind.at_peak)} at the peak`])));
  if (!memory.held?.length) return;
  const kinds = memory.kinds.map(k => k.kind), colour = kind => colours[Math.max(0, kinds.indexOf(kind)) % colours.length];
  node.append(el("h3", {}, "What the peak holds"), el("p", { class: "note" }, `${gb(memory.start_bytes)} was there when the step began; below, what the step allocated and still held then.${memory.held_rest_blocks ? ` ${memory.held_rest_blocks} smaller blocks hold ${gb(memory.held_rest_bytes)} more.` : ""}`),
    table([{ name: "layer", get: r => r.layer || "–", show: r => cellName(r.layer || "–"), text: true, long: true }, { name: "operation", get: r => r.operation || "–", show: r => cellName(r.operation || "–"), text: true, long: true, extra: true }, { name: "kind", get: r => r.kind, text: true, extra: true },
      { name: "GB", get: r => r.bytes, show: r => (r.bytes / 1e9).toFixed(3) }, bars("", memory.held, r => [[r.bytes, colour(r.kind)]]), { name: "blocks", get: r => r.blocks, extra: true }], memory.held,
    { caption: "held at the peak", search: memory.held.length > 8, limit: 12, open: r => openTasks(r.layer || r.operation, [["operation", r.operation], ["kind", r.kind], ["blocks", r.blocks]]) }));
}

function gpusSection() {
  if (!data.gpus) return null;
  const list = data.gpus.predictions, price = r => known(r.usd_per_1k_steps) ? r.usd_per_1k_steps.toFixed(3) : "–";
  const node = section("gpus", "Other GPUs", `The same step, every kernel carried over from ${data.gpus.from}${data.gpus.matched ? ` (${data.gpus.matched})` : ""}; the CPU stays as it is. Prices are those of the device files or of --prices.`, "GPUs");
  node.append(table([{ name: "GPU", get: r => r.device, text: true }, { name: "ms", get: r => r.ms, show: r => ms(r.ms) },
    { name: "10 % … 90 %", get: r => r.low_ms, show: r => r.declined ? r.declined : range(r.low_ms, r.high_ms), extra: true }, { name: "speed-up", get: r => r.speedup, show: r => known(r.speedup) ? gain(r.speedup) : "–" },
    { name: "USD/h", get: r => r.usd_per_hour, show: r => r.usd_per_hour ? String(r.usd_per_hour) : "–", extra: true },
    { name: "USD per 1,000 steps", get: r => r.usd_per_1k_steps, show: price, extra: true },
    { name: "fits", get: r => r.fits ? 1 : 0, show: r => r.fits === false ? el("span", { class: "worse" }, "no") : r.fits ? "yes" : "–" }], list,
  { caption: "GPUs", search: list.length > 8, sort: [1, 1], open: r => details([["band", r.declined ? r.declined : `${range(r.low_ms, r.high_ms)} ms`], ["peak memory", known(r.peak_bytes) ? gb(r.peak_bytes) : null], ["USD/h", r.usd_per_hour ? `${r.usd_per_hour}${r.price_source ? ` (${r.price_source})` : ""}` : "no price"], ["USD per 1,000 steps", price(r)]]) }));
  const unknown = list.filter(r => !r.usd_per_hour).length;
  if (unknown) node.append(el("p", { class: "note" }, `${unknown} of ${list.length} have no price; \`foretrace report --prices FILE\` takes a list of yours.`));
  return node;
}

function scaleSection() {
  if (!data.scale) return null;
  const node = section("scale", "More workers", `${data.scale.parallel} over ${data.scale.network}, ${data.scale.gpus_per_node} GPUs a node. The band is the 10th to the 90th percentile.`, "Workers");
  node.append(curve(data.scale.predictions.map(p => ({ x: p.workers, y: p.ms, low: p.low_ms, high: p.high_ms, exposed: p.exposed_comm_ms })), { label: "step by number of workers", unit: "workers", extra: [["exposed", "var(--communication)"]] }),
    legend([["var(--accent)", "step, ms"], ["var(--communication)", "communication that nothing hides, ms"]]),
    table([{ name: "workers", get: r => r.workers }, { name: "ms", get: r => r.ms, show: r => ms(r.ms) }, { name: "10 % … 90 %", get: r => r.low_ms, show: r => range(r.low_ms, r.high_ms), extra: true },
      { name: "exposed ms", get: r => r.exposed_comm_ms, show: r => ms(r.exposed_comm_ms) }, { name: "efficiency", get: r => r.efficiency, show: r => pct(r.efficiency) }], data.scale.predictions, { caption: "workers" }));
  return node;
}
