// The timeline: lanes of tasks on one canvas, one panel per timeline, each with its own axis. Only what is in view is looked at, and tasks
// that fall into one pixel are drawn as one, so that the cost of a frame follows the width of the canvas and not the number of tasks.

const KINDS = ["begin", "CPU", "runtime call", "wait", "kernel", "copy", "fill", "collective"];
const WHY = ["it starts with the step", "the task before it on its lane", "its launch", "room in the launch queue", "a synchronisation", "another stream", "room on the GPU", "its place in the CUDA graph", "another thread", "work from before the step", "the other ranks"];
const LANE = { cpu: 0, gpu: 1, network: 2 };
const TITLE = 24, AXIS = 18, BAR = 20, NAME = 15, GROUP = 22, NARROW = 700;

const isGpu = kind => (kind & 15) >= 4;
const laneOf = (line, t) => line.lanes.find(lane => lane.begin <= t && t < lane.end);
const taskAt = (lane, i) => lane.order ? lane.order[i] : lane.begin + i;
// The first task of a lane that ends after a moment.
function firstAfter(line, lane, moment) {
  let low = 0, high = lane.end - lane.begin;
  while (low < high) {
    const middle = (low + high) >> 1, t = taskAt(lane, middle);
    if (line.start[t] + line.length[t] <= moment) low = middle + 1; else high = middle;
  }
  return low;
}
const lengthText = ns => ns >= 1e6 ? `${ms(ns / 1e6, 3)} ms` : `${(ns / 1e3).toFixed(2)} µs`;

// The lanes of a panel from top to bottom: those of a step as they are; those of a job by rank.
function lanesOf(line, job, cpu) {
  const there = line.lanes.filter(lane => lane.end > lane.begin);
  if (!job) return there.map(lane => ({ lane }));
  const out = [], late = new Map((job.stragglers || []).map(s => [s.rank, s.cause]));
  for (const r of job.ranks) {
    const own = there.filter(lane => lane.rank === r.rank && (lane.kind === LANE.gpu || cpu));
    if (!own.length) continue;
    const bubble = line.bubbles?.find(b => b.rank === r.rank), waited = line.waits ? line.waits.find(w => w.rank === r.rank)?.ms : r.wait_ms, behind = !line.waits && late.has(r.rank);
    out.push({ group: `rank ${r.rank}${known(waited) ? `: waits ${ms(waited)} ms` : ""}${behind ? `; straggler, ${late.get(r.rank)}` : ""}`, late: behind }, ...(bubble ? [{ name: "bubble", spans: bubble.spans }] : []), ...own.map(lane => ({ lane })));
  }
  const between = there.filter(lane => lane.kind === LANE.network);
  return between.length ? [...out, { group: "between the ranks" }, ...between.map(lane => ({ lane, name: `group ${lane.name}` }))] : out;
}

// What the process groups of a job are there for ("dp", "tp"): each has a colour, which its collectives have on all ranks.
const purposesOf = job => [...new Set((job.groups || []).map(group => group.kind))].filter(Boolean);
const GROUP_COLOURS = 6;
const groupColour = place => `group-${place % GROUP_COLOURS}`;

// Where the name of a lane and its tasks are drawn: names to the left of the tasks where there is room, else above them.
const nameBox = (v, row) => v.gutter ? { x: 6, y: row.y, width: v.gutter - 14, height: row.height } : { x: 6, y: row.y, width: v.canvas.clientWidth - 12, height: NAME };
const barBox = (v, row) => ({ x: v.gutter, y: row.y + row.height - BAR + 2, width: v.inner(), height: BAR - 4 });

// The task of another rank that a wait on the GPU was for: through the transfer to whoever came last.
function waitedFor(line, t) {
  const own = laneOf(line, t)?.rank;
  let u = t + 1;
  for (let n = 0; n < 6 && u < line.tasks && line.cause[u]; ++n) {
    u -= line.cause[u];
    const lane = laneOf(line, u);
    if (known(lane?.rank) && lane.rank !== own) return u;
  }
  return null;
}
// All waits of a job that were for another rank, found once.
function meetingsOf(line) {
  if (line.meetings) return line.meetings;
  line.meetings = [];
  for (const lane of line.lanes.filter(one => one.kind === LANE.gpu)) {
    for (let t = lane.begin; t < lane.end; ++t) {
      if ((line.kind[t] & 15) !== 3 || !line.length[t]) continue;
      const from = waitedFor(line, t);
      if (from !== null) line.meetings.push({ t, lane, from, other: laneOf(line, from) });
    }
  }
  return line.meetings;
}
