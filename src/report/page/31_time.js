// Several tables in one place. Parts: {name: [rows, columns, onPick]}; empty ones are left out.
function tabbed(node, label, parts, first) {
  const names = Object.keys(parts).filter(n => parts[n][0] && parts[n][0].length);
  const tabs = el("div", { class: "tabs", role: "tablist", "aria-label": label }), panel = el("div", { role: "tabpanel" });
  const open = name => {
    for (const button of tabs.children) {
      const mine = button.dataset.name === name;
      button.setAttribute("aria-selected", String(mine));
      button.tabIndex = mine ? 0 : -1;
    }
    const [rows, columns, onPick] = parts[name];
    panel.replaceChildren(table(columns, rows, { caption: name, search: rows.length > 6, onPick }));
  };
  for (const name of names) {
    const button = el("button", { class: "tool", type: "button", role: "tab" }, `${name} (${parts[name][0].length})`);
    button.dataset.name = name;
    button.addEventListener("click", () => open(name));
    button.addEventListener("keydown", event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { const next = tabs.children[(names.indexOf(name) + step + names.length) % names.length]; next.focus(); next.click(); }
    });
    tabs.append(button);
  }
  node.append(tabs, panel);
  if (names.length) open(names.includes(first) ? first : names[0]);
}

function whereTimeGoes() {
  const node = section("time", "Where the time goes", summary.bottleneck ? `As traced: ${summary.bottleneck}.` : summary.no_graph);
  const whole = summary.gpu_ms || 1, into = field => row => showInTimeline(row[field]);
  tabbed(node, "tables", {
    phases: [summary.phases, [{ name: "phase", get: r => r.phase, text: true }, { name: "GPU ms", get: r => r.gpu_ms, show: r => ms(r.gpu_ms, 3) }, { name: "", get: r => r.gpu_ms, show: r => bar(r.gpu_ms / whole, phaseColour[r.phase]) }, { name: "CPU ms", get: r => r.cpu_ms, show: r => ms(r.cpu_ms, 3) }, { name: "GPU tasks", get: r => r.gpu_tasks }], into("phase")],
    layers: [summary.layers, [{ name: "layer", get: r => r.layer, text: true, long: true }, { name: "type", get: r => r.type, text: true }, { name: "GPU ms", get: r => r.gpu_ms, show: r => ms(r.gpu_ms, 3) }, { name: "", get: r => r.gpu_ms, show: r => bar(r.gpu_ms / whole * 4) }, { name: "forward", get: r => r.forward_gpu_ms, show: r => ms(r.forward_gpu_ms, 3) }, { name: "backward", get: r => r.backward_gpu_ms, show: r => ms(r.backward_gpu_ms, 3) }, { name: "CPU ms", get: r => r.cpu_ms, show: r => ms(r.cpu_ms, 3) }, { name: "GPU tasks", get: r => r.gpu_tasks }], into("layer")],
    operations: [summary.operations, [{ name: "operation", get: r => r.operation, text: true, long: true }, { name: "calls", get: r => r.calls }, { name: "GPU ms", get: r => r.gpu_ms, show: r => ms(r.gpu_ms, 3) }, { name: "", get: r => r.gpu_ms, show: r => bar(r.gpu_ms / whole) }, { name: "CPU ms", get: r => r.cpu_ms, show: r => ms(r.cpu_ms, 3) }, { name: "GPU tasks", get: r => r.gpu_tasks }], into("operation")],
    kernels: [summary.kernels, [{ name: "kernel", get: r => r.kernel, show: r => kernelName(r.kernel), text: true, long: true }, { name: "launches", get: r => r.launches }, { name: "total ms", get: r => r.total_ms, show: r => ms(r.total_ms, 3) }, { name: "", get: r => r.share, show: r => bar(r.share) }, { name: "mean µs", get: r => r.mean_us, show: r => ms(r.mean_us) }, { name: "share", get: r => r.share, show: r => pct(r.share) }], into("kernel")],
  }, "layers");
  node.append(el("p", { class: "note" }, "A row leads to its tasks in the timeline."));
}
