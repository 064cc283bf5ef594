compareSection();
const answerNode = document.getElementById("answer");
if (data.compare) answerNode.before(document.getElementById("compare"));
answer();
const lanes = ranksSection(), jobView = lanes ? timelineView(lanes, { id: "job", label: "the timeline of all ranks", job: data.ranks }) : null;
pair(useSection(), rooflineSection());
changes();
waterfallSection();
whereTimeGoes();
const stepNode = section("timeline", "Timeline", `${data.rank === undefined ? "The" : `Rank ${data.rank}: the`} traced step, profiler included${data.declined ? "" : ", above the predicted one without it"}. Click a task to see why it started when it did.`);
stepNode.append(el("details", { class: "keys" }, el("summary", {}, "Mouse and keys"), details([["wheel, + and −", "zoom the timeline under the pointer, or both: “zoom together”"], ["drag, arrow keys", "move"], ["click, Enter", "select the task; in the search box, the next match"], ["n, p", "next and previous task on the lane"], ["0, Home", "the whole step"], ["Escape", "select nothing"]])));
const stepView = timelineView(stepNode, { id: "step", label: "the timeline" });
memorySection();
sliders();
pair(gpusSection(), scaleSection());
fineprint();
document.documentElement.dataset.answer = String(Math.round(performance.now()));

async function loadTimelines() {
  const packed = await unpack(), all = packed ? packed.timelines : [], own = packed?.job ? all.slice(0, -packed.job) : all;
  stepView.load(packed, own);
  if (jobView && packed?.job) jobView.load(packed, all.slice(-packed.job));
  showInTimeline = stepView.show;
  tasksNamed = stepView.named;
  document.documentElement.dataset.timeline = String(Math.round(performance.now()));
  // For scripts that look at the page: benchmarks and tests.
  const { v } = stepView, view = { get from() { return v.panels[0].from; }, get to() { return v.panels[0].to; }, get top() { return v.top; } };
  window.foretrace = { ...stepView, clamp: (from, to) => stepView.clamp(v.panels[0], from, to), view, panels: v.panels, tasks: own.map(line => line.tasks), rows: () => v.panels.reduce((sum, p) => sum + p.rows.length, 0), job: jobView };
}
addEventListener("DOMContentLoaded", () => requestAnimationFrame(() => setTimeout(loadTimelines, 0)));
