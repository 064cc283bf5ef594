// Stages over time: one lane for each GPU of a pipeline. What no pass covers is the bubble.

const KINDS = { F: ["forward", "var(--forward)"], B: ["backward", "var(--backward)"], I: ["backward of inputs", "var(--backward)"], W: ["backward of weights", "var(--data)"] };
const AFTER = [["gradients_ms", "gradients and parameters", "var(--communication)"], ["update_ms", "update", "var(--optimizer)"]];

// Passes of one GPU, then what follows its last one: {from, to, name, colour, label}.
function lane(p, rank) {
  const several = p.ranks[rank].stages.length > 1;
  const out = p.actions.filter(a => a.rank === rank).map(a => ({ from: a.begin_ms, to: a.end_ms, label: String(a.microbatch), colour: KINDS[a.kind][1], faint: a.chunk % 2 === 1,
    name: `${KINDS[a.kind][0]} of micro-batch ${a.microbatch}${several ? `, stage ${a.stage}` : ""}` }));
  let from = Math.max(0, ...out.map(a => a.to));
  for (const [key, name, colour] of AFTER) {
    const to = from + p.ranks[rank][key];
    if (to > from) out.push({ from, to, name, colour, label: "" });
    from = to;
  }
  return out;
}

// Two passes at the same time (DualPipe) have half of the lane each. All of a colour are one path: a long pipeline has tens of thousands of passes.
function stagesChart(p, most) {
  const lanes = p.ranks.map((_, rank) => lane(p, rank)), drained = Math.max(...p.actions.map(a => a.end_ms)), digits = String(p.microbatches - 1).length;
  return chart(width => {
    const row = lanes.length > 32 ? 14 : 24, left = 52, right = 12, top = 6, bottom = 24, height = top + row * lanes.length + bottom;
    const x = t => left + (width - left - right) * t / most;
    const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${planName(p)}: ${plural(lanes.length, "GPU")} over ${ms(p.ms)} ms, bubble ${ms(p.bubble_ms)} ms` });
    const paths = new Map(), labels = [];
    lanes.forEach((list, r) => {
      const y = top + row * r + 2, high = row - 4;
      drawn.append(svg("rect", { x: left, y, width: Math.max(0, x(drained) - left), height: high, class: "idle" }), svgText(`GPU ${r}`, { x: left - 6, y: y + high / 2 + 4, "text-anchor": "end", class: "soft" }));
      list.forEach((a, i) => {
        const key = `${a.colour}|${a.faint ? 1 : 0}`, wide = x(a.to) - x(a.from), gap = wide > 3 ? 1 : 0;
        const first = list[i + 1]?.from === a.from && list[i + 1].to === a.to, second = list[i - 1]?.from === a.from && list[i - 1].to === a.to, half = first || second;
        paths.set(key, `${paths.get(key) || ""}M${x(a.from).toFixed(2)} ${second ? y + high / 2 : y}h${(wide - gap).toFixed(2)}v${half ? high / 2 : high}h${(gap - wide).toFixed(2)}z`);
        if (a.label && !half && row >= 20 && wide > 7 * digits + 6) labels.push(svgText(a.label, { x: x(a.from) + wide / 2, y: y + high / 2 + 4, "text-anchor": "middle", class: "on" }));
      });
    });
    for (const t of linearTicks(most, Math.max(3, Math.round(width / 140)))) {
      drawn.append(svg("line", { x1: x(t), x2: x(t), y1: top, y2: height - bottom, class: "grid over" }), svgText(t ? tickText(t) : "0 ms", { x: x(t), y: height - 6, "text-anchor": t ? "middle" : "start", class: "soft" }));
    }
    for (const [key, d] of paths) { const [colour, faint] = key.split("|"); drawn.append(svg("path", { d, style: `fill:${colour};opacity:${faint === "1" ? 0.62 : 1}` })); }
    drawn.append(...labels);
    drawn.addEventListener("pointermove", event => {
      const box = drawn.getBoundingClientRect(), r = Math.floor((event.clientY - box.top - top) / row), t = (event.clientX - box.left - left) / (width - left - right) * most;
      if (!lanes[r] || t < 0) return hideTip();
      const hit = lanes[r].filter(a => a.from <= t && t < a.to);
      if (!hit.length && t > drained) return hideTip();
      showTip(event.clientX, event.clientY, ...(hit.length ? hit.flatMap(a => [el("b", {}, a.name), el("div", {}, `GPU ${r}, ${ms(a.from)} … ${ms(a.to)} ms, ${ms(a.to - a.from)} ms long`)]) : [el("b", {}, "bubble"), ` GPU ${r} waits ${ms(p.ranks[r].bubble_ms)} ms in all`]));
    });
    drawn.addEventListener("pointerleave", hideTip);
    return drawn;
  });
}

function stagesSection() {
  const node = section("timeline", "Stages over time", null, "Stages"), shown = plans.filter(p => p.actions.length);
  if (!shown.length) {
    node.append(el("p", { class: "note" }, "Without a pipeline every GPU does the same all the time."));
    return;
  }
  node.append(el("p", { class: "note" }, `${search && !best.actions.length ? "The fastest plan has no pipeline; this is the fastest that has one. " : ""}One pipeline of the job, a lane for each of its GPUs, in ms since the step began. Numbers are micro-batches; the bubble is that of the busiest GPU.${shown.length > 1 ? " All plans have the same scale." : ""}`));
  const end = p => Math.max(p.ms, ...p.ranks.map((_, r) => Math.max(...lane(p, r).map(a => a.to)))), most = Math.max(...shown.map(end));
  for (const p of shown) node.append(el("h3", {}, `${planName(p)}: bubble ${ms(p.bubble_ms)} of ${ms(p.ms)} ms`), stagesChart(p, most));
  const kinds = new Set(shown.flatMap(p => p.actions.map(a => a.kind))), two = shown.some(p => p.actions.some(a => a.chunk % 2));
  node.append(legend([...Object.entries(KINDS).filter(([k]) => kinds.has(k)).map(([, [name, colour]]) => [colour, name]), ["var(--wait)", "bubble"], ...AFTER.map(([, name, colour]) => [colour, name])]),
    two ? el("p", { class: "note" }, "A GPU with several stages: every other one is paler.") : "");
}
