// What page_pack.hpp describes: a head and columns of numbers, gzipped.

async function unpack() {
  const text = document.getElementById("pack").textContent.trim();
  if (!text) return null;
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const raw = new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
  const size = new DataView(raw.buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(raw.subarray(4, 4 + size)));
  let place = 4 + size;
  for (const line of head.timelines) unpackLine(raw, line, start => { const from = place; place += start; return from; });
  head.names.unshift("");
  head.details.unshift("");
  return head;
}

// Numbers of seven bits a byte. Beyond 32 bits by multiplication: shifts would cut them off.
function numbers(raw, at, count, out, signed) {
  for (let i = 0; i < count; ++i) {
    let value = 0, scale = 1, byte;
    do { byte = raw[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte > 127);
    out[i] = signed ? (value % 2 ? -(value + 1) / 2 : value / 2) : value;
  }
  return out;
}

function unpackLine(raw, line, next) {
  const n = line.tasks, where = {};
  for (const [name, size] of Object.entries(line.columns)) where[name] = next(size);
  const column = (name, out, signed = false) => numbers(raw, where[name], out.length, out, signed);
  line.gap = column("start", new Float64Array(n), true);
  line.length = column("length", new Float64Array(n));
  for (const name of ["name", "layer", "op"]) line[name] = column(name, new Uint32Array(n));
  line.kind = column("kind", new Uint8Array(n));
  line.why = column("why", new Uint8Array(n));
  line.cause = column("cause", new Int32Array(n), true);
  line.event = column("event", new Float64Array(n), true);
  line.start = line.gap;
  let event = 0;
  for (const lane of line.lanes) {
    let end = 0, before = -Infinity, ordered = true;
    for (let t = lane.begin; t < lane.end; ++t) {
      line.start[t] += end;
      end = line.start[t] + line.length[t];
      ordered = ordered && line.start[t] >= before;
      before = line.start[t];
      event += line.event[t];
      line.event[t] = event;
    }
    // A lane that goes by priority: an order of its own for looking things up.
    if (!ordered) lane.order = Uint32Array.from({ length: lane.end - lane.begin }, (_, i) => lane.begin + i).sort((a, b) => line.start[a] - line.start[b]);
  }
  // What is only looked at when a task is: read when the first one is asked for.
  line.late = () => {
    if (line.known) return line.known;
    const waits = column("waits", new Uint32Array(n)), first = new Uint32Array(n + 1);
    for (let t = 0; t < n; ++t) first[t + 1] = first[t] + waits[t];
    return line.known = { shapes: column("shapes", new Uint32Array(n)), launch: column("launch", new Uint32Array(n)), first, from: column("waits_for", new Int32Array(first[n]), true), why: column("waits_why", new Uint8Array(first[n])) };
  };
}
