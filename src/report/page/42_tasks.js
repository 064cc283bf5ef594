// What the timeline says of one task: of a view `v`, the task t of timeline l.

// All that a task has to wait for and all that has to wait for it, whether or not it was what held them up.
function dependencies(line, t) {
  const late = line.late(), before = [], after = [];
  if (!late.to) {
    late.to = new Uint32Array(line.tasks + 1);
    late.after = new Uint32Array(late.from.length);
    late.afterWhy = new Uint8Array(late.from.length);
    for (let u = 0; u < line.tasks; ++u) for (let i = late.first[u]; i < late.first[u + 1]; ++i) ++late.to[u - late.from[i] + 1];
    for (let u = 0; u < line.tasks; ++u) late.to[u + 1] += late.to[u];
    const next = late.to.slice();
    for (let u = 0; u < line.tasks; ++u) for (let i = late.first[u]; i < late.first[u + 1]; ++i) { const at = next[u - late.from[i]]++; late.after[at] = u; late.afterWhy[at] = late.why[i]; }
  }
  const lane = laneOf(line, t);
  if (t > lane.begin && !lane.order) before.push([t - 1, 1]);
  for (let i = late.first[t]; i < late.first[t + 1]; ++i) before.push([t - late.from[i], late.why[i]]);
  if (t + 1 < lane.end && !lane.order) after.push([t + 1, 1]);
  for (let i = late.to[t]; i < late.to[t + 1]; ++i) after.push([late.after[i], late.afterWhy[i]]);
  return [["depends on", before], ["needed by", after]];
}
// A task that this one held up last.
function heldUp(line, t) {
  if (!line.holds) {
    line.holds = new Int32Array(line.tasks).fill(-1);
    for (let u = 0; u < line.tasks; ++u) if (line.cause[u]) { const from = u - line.cause[u]; if (line.holds[from] < 0) line.holds[from] = u; }
  }
  return line.holds[t] >= 0 ? line.holds[t] : null;
}

function factsOf(v, { l, t }) {
  const line = v.lines[l], k = line.kind[t], names = v.head.names, late = line.late(), details = v.head.details, lane = laneOf(line, t);
  const out = [["what", `${KINDS[k & 15]}${k > 127 ? ", on the critical path" : ""}`]];
  if (known(lane?.rank)) out.push(["rank", lane.rank]);
  if (line.op[t] && names[line.op[t]] !== names[line.name[t]]) out.push(["operation", shorten(names[line.op[t]], 400)]);
  if (line.layer[t]) out.push(["layer", shorten(names[line.layer[t]], 400)]);
  if (late.shapes[t]) out.push(["shapes", shorten(details[late.shapes[t]], 400)]);
  if (late.launch[t]) out.push(["launched as", details[late.launch[t]]]);
  out.push(["phase", phases[k >> 4 & 7]], ["starts", `${(line.start[t] / 1e6).toFixed(4)} ms`], ["takes", lengthText(line.length[t])]);
  const [measured, predicted] = v.lengths;
  if (l === 1 && isGpu(k)) {
    const before = line.event[t] ? measured.get(line.event[t]) : undefined;
    out.push(["as traced", before === undefined ? "not there: the change brings it" : lengthText(before)]);
  }
  if (l === 0 && isGpu(k) && predicted) {
    const after = line.event[t] ? predicted.get(line.event[t]) : undefined;
    out.push(["with the change", after === undefined ? "gone, or part of another kernel" : Math.abs(after - line.length[t]) < 0.02 * line.length[t] ? "as long as now" : lengthText(after)]);
  }
  const other = v.job && (k & 15) === 3 ? waitedFor(line, t) : null;
  if (other !== null) return [...out, ["waited for", `rank ${laneOf(line, other).rank}, which came last`]];
  const from = line.cause[t] ? t - line.cause[t] : null;
  return [...out, ["waited for", WHY[line.why[t]] + (from !== null ? `: ${shorten(names[line.name[from]] || KINDS[line.kind[from] & 15], 160)}` : "")]];
}

// Everything about the task that was selected, with buttons to what it is tied to.
function pickedTask(v, { l, t }, pick) {
  const line = v.lines[l], list = details(factsOf(v, { l, t })), buttons = el("div", { class: "tools" });
  for (const [name, tasks] of dependencies(line, t)) {
    if (!tasks.length) continue;
    const shown = tasks.slice(0, 8).map(([u, why]) => press(`${shorten(kernelName(v.head.names[line.name[u]] || KINDS[line.kind[u] & 15]), 48)} (${WHY[why]})`, `select it: ${WHY[why]}`, () => pick({ l, t: u }, true)));
    list.append(el("dt", {}, name), el("dd", { class: "tools" }, shown, tasks.length > 8 ? `and ${tasks.length - 8} more` : null));
  }
  if (line.cause[t]) buttons.append(press("what it waited for", "select the cause", () => pick({ l, t: t - line.cause[t] }, true)));
  const next = heldUp(line, t);
  if (next !== null) buttons.append(press("what waited for it", "select a task that waited for this one", () => pick({ l, t: next }, true)));
  return [el("b", {}, shorten(v.head.names[line.name[t]] || KINDS[line.kind[t] & 15], 600)), list, buttons];
}
