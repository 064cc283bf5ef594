// Sliders over answers that were computed beforehand. Where a slider stands on one of them the answer is shown; between two of them
// both are, with the straight line between them named as what it is.

const factorText = x => x >= 1 || 1 / x % 1 > 1e-9 ? String(Number(x.toPrecision(3))) : `1/${Math.round(1 / x)}`;

// Stops: {x, label, ms, low, high, exposed, samples, peak}, x ascending; `apart`: there is nothing between them (GPUs).
function slider({ name, unit = "", stops, now = 0, apart = false, whole = false, onMove = () => {} }) {
  const out = el("output"), last = stops.length - 1;
  let list = stops;
  const label = stop => stop.label ?? (whole && stop.x === 1 ? `one ${unit.replace(/s\b.*/, "")}` : `${whole ? Math.round(stop.x) : factorText(stop.x)} ${unit}`);
  const short = stop => stop.label ?? (whole ? String(Math.round(stop.x)) : `${factorText(stop.x)} ×`);
  const band = s => known(s.low) ? ` [${range(s.low, s.high)}]` : "";
  const facts = s => [`${ms(s.ms)} ms${band(s)}`, s.samples && s.samples !== 1 ? `${times(s.samples * data.today_ms / s.ms)} the samples/s` : null, known(s.exposed) ? `${ms(s.exposed)} ms of communication exposed` : null, s.peak ? `peak ${gb(s.peak)}` : null, s.note].filter(Boolean).join(", ");
  function say(position) {
    const low = Math.floor(position + 1e-9), part = position - low;
    if (part < 1e-6) return { text: `${label(list[low])}: ${facts(list[low])}`, computed: true, at: list[low] };
    const a = list[low], b = list[low + 1], x = a.x * (b.x / a.x) ** part;
    // Along x itself, not along the slider, whose stops are as far apart as they were chosen.
    const share = (x - a.x) / (b.x - a.x), guess = a.ms + (b.ms - a.ms) * share;
    return { text: `about ${whole ? Math.round(x) : Number(x.toPrecision(2))} ${unit}: not computed; ${label(a)} gives ${ms(a.ms)} ms and ${label(b)} ${ms(b.ms)} ms, a straight line between them ${ms(guess)} ms`, computed: false, at: part < 0.5 ? a : b };
  }
  const input = el("input", { type: "range", min: 0, max: last, step: apart ? 1 : 0.05, value: now, "aria-label": name });
  // The thumb's middle goes from --half before one end to --half before the other.
  const at = i => `calc(var(--half) + (100% - 2 * var(--half)) * ${last ? i / last : 0.5})`;
  const line = svg("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none" }), plot = el("div", { class: "plot", "aria-hidden": "true" });
  const ticks = el("div", { class: "ticks", "aria-hidden": "true" });
  let values = [], names = [];
  // Ends and the starting point first: they are shown even where there is no room for all.
  const important = nodes => [now, 0, last, ...stops.keys()].filter((i, place, all) => all.indexOf(i) === place).map(i => nodes[i]).filter(Boolean);
  const again = () => { if (plot.clientWidth) { thin(important(values)); thin(important(names)); } };
  function draw() {
    const most = Math.max(...list.map(s => s.ms)), y = v => 100 - 72 * v / most;
    line.replaceChildren(apart ? svg("g") : svg("polyline", { points: list.map((s, i) => `${1000 * i / Math.max(1, last)},${y(s.ms)}`).join(" "), "vector-effect": "non-scaling-stroke" }));
    values = list.map((s, i) => el("i", { class: "value", style: { left: at(i), top: `${y(s.ms)}%` } }, ms(s.ms, s.ms >= 10 ? 1 : 2)));
    names = list.map((s, i) => el("i", { class: !apart ? null : i === 0 ? "first" : i === last ? "last" : null, style: { left: at(i) } }, short(s)));
    const dots = list.map((s, i) => el("i", { class: "dot", style: { left: at(i), top: `${y(s.ms)}%` } }));
    plot.replaceChildren(el("div", { class: "line" }, line), ...dots, ...values, el("i", { class: "here" }));
    ticks.replaceChildren(...list.map((s, i) => el("b", { style: { left: at(i) } })), ...names);
    again();
  }
  function show() {
    const position = Number(input.value), said = say(position), low = Math.floor(position), high = Math.min(last, low + 1);
    const most = Math.max(...list.map(s => s.ms)), here = list[low].ms + (list[high].ms - list[low].ms) * (position - low), ring = plot.querySelector(".here");
    out.textContent = said.text;
    out.className = said.computed ? "" : "between";
    Object.assign(ring.style, { left: at(position), top: `${100 - 72 * here / most}%` });
    ring.classList.toggle("between", !said.computed);
    input.setAttribute("aria-valuetext", said.text);
    onMove(said.at, said.computed);
  }
  input.addEventListener("input", show);
  // Arrows go from answer to answer; with Shift to what is in between.
  input.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const from = Number(input.value), next = event.shiftKey && !apart ? from + step * 0.1 : step > 0 ? Math.floor(from + 1e-6) + 1 : Math.ceil(from - 1e-6) - 1;
    input.value = Math.max(0, Math.min(last, next));
    show();
  });
  const node = el("div", { class: apart ? "slider long" : "slider" }, el("h3", {}, name), out, el("div", { class: "rail" }, plot, input, ticks));
  node.dataset.slider = name;
  new ResizeObserver(again).observe(plot);
  redraws.push(() => requestAnimationFrame(again));
  draw();
  show();
  return { node, change: other => { list = other; draw(); show(); } };
}

function stopsOf(s) {
  return s.x.map((x, i) => ({ x, ms: s.ms[i], low: s.low_ms[i], high: s.high_ms[i], exposed: s.exposed_ms[i], samples: s.samples[i], peak: s.peak_bytes[i] }));
}
function gpuStops() {
  const list = (data.gpus?.predictions || []).filter(p => !p.declined && p.ms > 0).sort((a, b) => b.ms - a.ms);
  const stops = list.map(p => ({ x: p.ms, label: p.device, ms: p.ms, low: p.low_ms, high: p.high_ms, peak: p.peak_bytes, note: [p.usd_per_1k_steps ? `${p.usd_per_1k_steps.toFixed(3)} USD per 1,000 steps` : null, p.fits === false ? "does not fit" : null].filter(Boolean).join(", ") }));
  // A part of a GPU, or one of the user's own: today is none of the list.
  const today = data.gpus?.baseline_ms, same = stops.find(s => s.label === data.gpus.from_device);
  if (today && (!same || Math.abs(same.ms / today - 1) > 0.01)) {
    stops.push({ x: today, label: "as recorded", ms: today });
    stops.sort((a, b) => b.ms - a.ms);
  }
  return stops;
}

function sliders() {
  const given = (data.sliders || []).map(s => ({ ...s, stops: stopsOf(s) })), gpus = gpuStops();
  if (!given.length && gpus.length < 2) return;
  const node = section("sliders", "If it were …", "One thing at a time, the rest as it is. Every dot was simulated when the page was made, its label is the step in ms; between dots nothing was, and a straight line is only a guess. Arrow keys go from dot to dot, with Shift in between.", "If it were …");
  const grid = el("div", { class: "sliders" });
  node.append(grid);
  const one = stops => Math.max(0, stops.findIndex(s => s.x === 1));
  const networks = given.filter(s => s.name === "bandwidth"), byWorkers = networks.filter(s => s.workers);
  let network = null;
  for (const s of given.filter(s => s.name !== "bandwidth")) {
    const isWorkers = s.name === "workers";
    const move = at => { if (isWorkers && network) network(Math.round(at.x)); };
    grid.append(slider({ name: s.name, unit: isWorkers ? `workers over ${s.about}` : s.unit, stops: s.stops, now: one(s.stops), whole: isWorkers, onMove: move }).node);
  }
  if (byWorkers.length) {
    const note = el("p", { class: "note" }), first = byWorkers[0];
    const made = slider({ name: "bandwidth", unit: first.unit, stops: first.stops, now: one(first.stops) });
    network = workers => {
      const found = byWorkers.reduce((a, b) => Math.abs(Math.log(b.workers / workers)) < Math.abs(Math.log(a.workers / workers)) ? b : a);
      note.textContent = `Bandwidth between ${found.workers} workers (move “workers” for others); one times it is ${found.about}.`;
      made.change(found.stops);
    };
    made.node.append(note);
    grid.append(made.node);
    network(first.workers);
  } else if (networks.length) {
    grid.append(slider({ name: "bandwidth", unit: networks[0].unit, stops: networks[0].stops, now: one(networks[0].stops) }).node);
  }
  if (gpus.length > 1) {
    const here = gpus.some(s => s.label === "as recorded") ? "as recorded" : data.gpus.from_device;
    grid.append(slider({ name: "GPU", stops: gpus, now: Math.max(0, gpus.findIndex(s => s.label === here)), apart: true }).node);
  }
}
