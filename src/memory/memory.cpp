#include "foretrace/memory/memory.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/saturate.hpp"
#include "base/text.hpp"
#include "trace/ranges.hpp"

namespace foretrace::memory {

using trace::EventKind;

namespace {

// Operations and ranges open on each thread, moved forward in time with the memory events.
class OpenEvents {
 public:
  explicit OpenEvents(const trace::Trace& t, Ns from, Ns to) : trace_(t), lanes_(t.lanes.size()) {
    for (std::uint32_t e = 0; e < t.size(); ++e) {
      const EventKind kind = t.kind(e);
      if (t.events.ph[e] != 'X' || t.end(e) < from || t.events.start[e] > to) continue;
      if (kind == EventKind::kOp || kind == EventKind::kAnnotation || kind == EventKind::kPython) {
        lanes_[t.events.lane[e].index()].events.push_back(e);
      }
    }
    for (Lane& lane : lanes_) {
      std::sort(lane.events.begin(), lane.events.end(), [&](std::uint32_t a, std::uint32_t b) {
        if (t.events.start[a] != t.events.start[b]) return t.events.start[a] < t.events.start[b];
        return t.events.duration[a] > t.events.duration[b];
      });
    }
  }

  const std::vector<std::uint32_t>& at(LaneId id, Ns when) {
    Lane& lane = lanes_[id.index()];
    const auto close = [&](Ns t) {
      while (!lane.open.empty() && trace_.end(lane.open.back()) < t) lane.open.pop_back();
    };
    for (; lane.next < lane.events.size() && trace_.events.start[lane.events[lane.next]] <= when; ++lane.next) {
      close(trace_.events.start[lane.events[lane.next]]);
      lane.open.push_back(lane.events[lane.next]);
    }
    close(when);
    return lane.open;
  }

 private:
  struct Lane {
    std::vector<std::uint32_t> events, open;
    std::size_t next = 0;
  };
  const trace::Trace& trace_;
  std::vector<Lane> lanes_;
};

// No memory holds more. A damaged file may say anything.
std::int64_t bounded(std::int64_t bytes) {
  constexpr std::int64_t kLargestBlock = std::int64_t{1} << 46;
  return std::clamp(bytes, -kLargestBlock, kLargestBlock);
}

Stage stage_of(const trace::Trace& t, const std::vector<std::uint32_t>& open) {
  for (const std::uint32_t e : open) {
    const std::string_view name = t.name(e);
    if (name.starts_with("Optimizer.step") || contains(name, "_amp_")) return Stage::kUpdate;
    if (trace::is_autograd_node(name)) return Stage::kBackward;
  }
  return Stage::kForward;
}

// The operation whose memory a block is: aten::empty and its like only ask for it.
std::uint32_t asking_operation(const trace::Trace& t, const std::vector<std::uint32_t>& open) {
  for (auto e = open.rbegin(); e != open.rend(); ++e) {
    const std::string_view name = t.name(*e);
    if (t.kind(*e) == EventKind::kOp && !name.starts_with("aten::empty") && !name.starts_with("aten::resize"))
      return *e;
  }
  return kNone;
}

// A step may have several passes and updates (a GAN's two networks): what counts is whether a block is still there when the next
// one begins. `stages`: of every event.
void classify(Curve& c, const std::vector<Stage>& stages) {
  const auto next = [&](Stage stage) {
    std::vector<std::uint32_t> from(c.positions + 2, UINT32_MAX);
    for (std::uint32_t i = c.positions; i > 0; --i) from[i] = stages[i - 1] == stage ? i : from[i + 1];
    return from;
  };
  const std::vector<std::uint32_t> backward = next(Stage::kBackward);
  const std::vector<std::uint32_t> update = next(Stage::kUpdate);
  for (Block& b : c.blocks) {
    if (b.allocated == 0) continue;
    if (b.stage == Stage::kBackward && (b.freed == UINT32_MAX || b.freed >= update[b.allocated])) {
      b.kind = Kind::kGradient;
    } else if (b.stage == Stage::kForward && backward[b.allocated] != UINT32_MAX && b.freed >= backward[b.allocated]) {
      b.kind = Kind::kActivation;
    } else {
      b.kind = Kind::kTemporary;
    }
    if (b.stage == Stage::kForward && b.op == kNone && b.kind == Kind::kActivation) b.kind = Kind::kInput;
  }
}

}  // namespace

std::optional<Curve> curve(const trace::Trace& t, const trace::Step& step) {
  struct Row {
    Ns time;
    std::uint32_t event;
  };
  std::vector<Row> rows;
  for (std::uint32_t e = 0; e < t.size(); ++e) {
    const trace::MemoryIds* m = t.memory(e);
    if (m == nullptr || m->total_allocated == trace::kAbsent || m->bytes == trace::kAbsent) continue;
    if (t.events.start[e] < step.start || t.events.start[e] >= step.end) continue;
    const auto type = t.args.find(t.events.args[e], "Device Type");
    if (type && *type != "1") continue;
    rows.push_back({t.events.start[e], e});
  }
  if (rows.empty()) return std::nullopt;
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.time < b.time; });

  Curve c;
  const trace::MemoryIds& first = *t.memory(rows.front().event);
  c.start_bytes = bounded(first.total_allocated) - bounded(first.bytes);
  c.positions = static_cast<std::uint32_t>(rows.size());
  c.backward_from = c.update_from = c.positions + 1;
  OpenEvents open(t, step.start, step.end);
  std::vector<Stage> stages;
  std::unordered_map<std::int64_t, std::size_t> alive;  // address -> block
  std::vector<std::uint32_t> asked;                     // by block: the operation it was allocated for
  for (std::uint32_t i = 0; i < rows.size(); ++i) {
    const trace::MemoryIds& m = *t.memory(rows[i].event);
    if (m.total_reserved != trace::kAbsent) {
      c.recorded_reserved = std::max(c.recorded_reserved, bounded(m.total_reserved));
    }
    const auto& chain = open.at(t.events.lane[rows[i].event], rows[i].time);
    const Stage stage = stage_of(t, chain);
    stages.push_back(stage);
    if (stage == Stage::kBackward) c.backward_from = std::min(c.backward_from, i + 1);
    if (stage == Stage::kUpdate) c.update_from = std::min(c.update_from, i + 1);
    if (m.bytes > 0) {
      Block b;
      b.bytes = bounded(m.bytes);
      b.allocated = i + 1;
      b.at = rows[i].time;
      b.stage = stage;
      for (const std::uint32_t e : chain) {
        if (t.kind(e) == EventKind::kOp) b.op = e;
        if (t.name(e).starts_with("layer:")) b.layer = e;
      }
      alive[m.address] = c.blocks.size();
      asked.resize(c.blocks.size() + 1, kNone);
      asked.back() = asking_operation(t, chain);
      c.blocks.push_back(b);
    } else if (const auto it = alive.find(m.address); it != alive.end()) {
      Block& b = c.blocks[it->second];
      b.freed = i + 1;
      const std::uint32_t by = asked[it->second];
      b.workspace = by != kNone && std::find(chain.begin(), chain.end(), by) != chain.end();
      alive.erase(it);
    } else {
      // Freed here, allocated before the step: a gradient or batch of the step before.
      Block b;
      b.bytes = -bounded(m.bytes);
      b.allocated = 0;
      b.freed = i + 1;
      b.kind = Kind::kResident;
      c.blocks.push_back(b);
      c.start_bytes = saturated_sum(c.start_bytes, -b.bytes);
    }
  }
  classify(c, stages);
  for (Block& b : c.blocks) {
    if (b.allocated == 0) b.kind = b.freed <= c.backward_from ? Kind::kGradient : Kind::kResident;
  }
  recompute(c);
  if (c.peak_at > 0) {
    for (const Block& b : c.blocks) {
      if (b.allocated == c.peak_at && b.op != kNone) c.peak_op = std::string(t.name(b.op));
    }
  }
  return c;
}

Peak peak(const Curve& c) {
  std::vector<std::int64_t> change(c.positions + 2, 0);
  for (const Block& b : c.blocks) {
    // What a change puts behind the last event (a backward pass the step does not have) never comes to be.
    if (b.allocated > c.positions || b.freed <= b.allocated) continue;
    change[b.allocated] = saturated_sum(change[b.allocated], b.bytes);
    if (b.freed <= c.positions) change[b.freed] = saturated_sum(change[b.freed], -b.bytes);
  }
  std::int64_t level = c.start_bytes;
  Peak most{INT64_MIN, 0};
  for (std::uint32_t i = 0; i <= c.positions; ++i) {
    level = saturated_sum(level, change[i]);
    if (level > most.bytes) most = {level, i};
  }
  return most;
}

void add_blocks(Curve& c, const std::vector<Block>& blocks) {
  c.blocks.insert(c.blocks.end(), blocks.begin(), blocks.end());
  std::stable_sort(c.blocks.begin(), c.blocks.end(),
                   [](const Block& a, const Block& b) { return a.allocated < b.allocated; });
}

void recompute(Curve& c) {
  const Peak most = peak(c);
  c.peak_bytes = most.bytes;
  c.peak_at = most.at;
  c.at_peak = {};
  c.at_peak[static_cast<std::size_t>(Kind::kResident)] = c.start_bytes;
  for (const Block& b : c.blocks) {
    std::int64_t& of_kind = c.at_peak[static_cast<std::size_t>(b.kind)];
    if (b.allocated <= c.peak_at && b.freed > c.peak_at) of_kind = saturated_sum(of_kind, b.bytes);
  }
}

void scale_batch(Curve& curve, double x) {
  for (Block& b : curve.blocks) {
    const bool data = b.kind == Kind::kActivation || b.kind == Kind::kInput ||
                      (b.kind == Kind::kTemporary && b.stage != Stage::kUpdate);
    if (data && !b.of_parameters) b.bytes = bounded(saturated(static_cast<double>(b.bytes) * x));
  }
}

double largest_batch(const std::function<Curve(double)>& at, double bytes) {
  const auto fits_at = [&](double x) { return fits(at(x), bytes); };
  if (!fits_at(0)) return 0;
  double low = 0;
  double high = 1;
  for (; fits_at(high); high *= 2) {
    if (high >= kLargestFactor) return kLargestFactor;
    low = high;
  }
  for (int round = 0; round < 24; ++round) {  // to 1/16777216 of the interval
    const double middle = (low + high) / 2;
    (fits_at(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace foretrace::memory
