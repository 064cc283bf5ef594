// The search by sizes of tensor and pipeline parallel: the best plan of each cell.

function searchSection() {
  if (!data.cells?.length) return;
  const node = section("search", "Tensor by pipeline parallel", `The best of all plans with these sizes: its step in ms, and its speed against the best of all. The rest of the ${plural(data.report.gpus, "GPU")} are replicas and positions.`, "TP × PP");
  const sizes = key => [...new Set(data.cells.map(c => c[key]))].sort((a, b) => a - b), tps = sizes("tp"), pps = sizes("pp"), fastest = Math.max(...data.cells.map(c => c.rate || 0));
  const cell = c => {
    if (!c) return el("td", { class: "none" }, "–"); // more GPUs than there are, or more stages than blocks
    if (!known(c.ms)) return withTip(el("td", { class: "none" }, c.declined.includes("does not fit") ? "does not fit" : "declined"), () => [el("b", {}, `tp=${c.tp}, pp=${c.pp}`), ` ${c.tried} tried; most: ${c.declined}`]);
    const share = c.rate / fastest;
    return withTip(el("td", { class: share === 1 ? "cell first" : "cell", style: { background: `color-mix(in srgb, var(--accent) ${Math.round(55 * share ** 2)}%, var(--paper))` } }, el("b", {}, ms(c.ms, c.ms < 100 ? 2 : 1)), el("span", {}, pct(share))),
      () => [el("b", {}, planName(c)), el("div", {}, `${ms(c.ms)} ms, ${known(c.peak_bytes) ? `peak ${gb(c.peak_bytes)}, ` : ""}best of ${c.tried} tried`)]);
  };
  node.append(el("div", { class: "scroll fitted", tabindex: 0, role: "region", "aria-label": "tensor by pipeline parallel" }, el("table", { class: "heat" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "TP \\ PP"), pps.map(pp => el("th", { scope: "col" }, pp)))),
    el("tbody", {}, tps.map(tp => el("tr", {}, el("th", { scope: "row" }, tp), pps.map(pp => cell(data.cells.find(c => c.tp === tp && c.pp === pp)))))))));
}
