#include "simulate/pipeline_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>

namespace foretrace::simulate {
namespace {

struct Named {
  ScheduleKind kind;
  std::string_view name;
};
constexpr std::array<Named, 5> kNames{{{ScheduleKind::kGpipe, "gpipe"},
                                       {ScheduleKind::kOneForwardOneBackward, "1f1b"},
                                       {ScheduleKind::kInterleaved, "interleaved"},
                                       {ScheduleKind::kZeroBubble, "zb1p"},
                                       {ScheduleKind::kDualPipe, "dualpipe"}}};

constexpr std::uint64_t kMostPasses = 1 << 22;  // a limit on memory: each is listed

using Actions = std::vector<PipelineAction>;

Actions gpipe(const PipelineShape& s) {
  Actions out;
  for (std::uint32_t m = 0; m < s.microbatches; ++m) out.push_back({ActionKind::kForward, m, 0});
  for (std::uint32_t m = 0; m < s.microbatches; ++m) out.push_back({ActionKind::kBackward, m, 0});
  return out;
}

// Micro-batches go through a rank's chunks in rounds: all of a round through one chunk, then through the next.
struct Rounds {
  std::uint32_t per_round;
  std::uint32_t chunks;

  [[nodiscard]] std::uint32_t chunk(std::uint32_t pass) const { return (pass / per_round) % chunks; }
  [[nodiscard]] std::uint32_t microbatch(std::uint32_t pass) const {
    return pass / (per_round * chunks) * per_round + pass % per_round;
  }
  [[nodiscard]] PipelineAction forward(std::uint32_t pass) const {
    return {ActionKind::kForward, microbatch(pass), chunk(pass)};
  }
  [[nodiscard]] PipelineAction backward(std::uint32_t pass, ActionKind kind) const {
    return {kind, microbatch(pass), chunks - 1 - chunk(pass)};
  }
};

std::uint32_t rounds_of(const PipelineShape& s) { return std::max(1U, s.microbatches / s.ranks); }

// One forward, one backward after a warm-up; with one chunk the plain schedule. With zero bubbles a rank leaves as many
// gradients of weights behind as ranks are before it: as late as its neighbours' backwards make it wait.
Actions alternating(const PipelineShape& s, std::uint32_t rank) {
  const bool zero_bubble = s.kind == ScheduleKind::kZeroBubble;
  const Rounds rounds{s.microbatches / rounds_of(s), s.chunks};
  const std::uint32_t passes = s.microbatches * s.chunks;
  const std::uint32_t later = s.ranks - 1 - rank;
  const std::uint32_t hops = s.kind == ScheduleKind::kInterleaved ? 2 : 1;
  const std::uint32_t warm_up = std::min(passes, (s.chunks - 1) * rounds.per_round + hops * later);
  const ActionKind kind = zero_bubble ? ActionKind::kBackwardInput : ActionKind::kBackward;
  Actions out;
  std::uint32_t weights = 0;
  const auto backward = [&](std::uint32_t pass) {
    out.push_back(rounds.backward(pass, kind));
    if (zero_bubble && pass >= rank) out.push_back(rounds.backward(weights++, ActionKind::kBackwardWeight));
  };
  for (std::uint32_t i = 0; i < warm_up; ++i) out.push_back(rounds.forward(i));
  for (std::uint32_t i = warm_up; i < passes; ++i) {
    out.push_back(rounds.forward(i));
    backward(i - warm_up);
  }
  for (std::uint32_t i = passes - warm_up; i < passes; ++i) backward(i);
  while (zero_bubble && weights < passes) out.push_back(rounds.backward(weights++, ActionKind::kBackwardWeight));
  return out;
}

// DualPipe's eight parts. Chunk 0 of a rank in the first half is what its micro-batches pass first; in the second half the
// directions change places. `near` micro-batches enter at this half's end of the pipeline.
class DualPipe {
 public:
  DualPipe(const PipelineShape& s, std::uint32_t rank) : half_(s.microbatches / 2), second_half_(rank >= s.ranks / 2) {
    const std::uint32_t half_ranks = s.ranks / 2;
    const std::uint32_t from_end = std::min(rank, s.ranks - 1 - rank);
    const std::uint32_t inner = half_ranks - from_end - 1;
    for (std::uint32_t i = 0; i < 2 * inner; ++i) forward(kNear);
    for (std::uint32_t i = 0; i < from_end + 1; ++i) {
      forward(kNear);
      forward(kFar);
    }
    for (std::uint32_t i = 0; i < inner; ++i) {
      backward(kFar, true);
      weight();
      forward(kFar);
    }
    for (std::uint32_t i = 0; i < half_ + from_end + 1 - s.ranks; ++i) {
      // The two innermost ranks cannot pair the first: its backward waits for the forward it would overlap.
      pair(kNear, kFar, i > 0 || inner > 0);
      pair(kFar, kNear, true);
    }
    for (std::uint32_t i = 0; i < inner; ++i) {
      backward(kFar, false);
      pair(kFar, kNear, true);
    }
    bool apart = false;
    for (std::uint32_t i = 0; i < from_end + 1; ++i) {
      const bool middle = i == (from_end + 1) / 2;
      if (middle && from_end % 2 == 1) apart = true;
      backward(kFar, apart);
      if (middle && from_end % 2 == 0) apart = true;
      backward(kNear, apart);
    }
    for (std::uint32_t i = 0; i < inner; ++i) {
      weight();
      backward(kNear, true);
    }
    for (std::uint32_t i = 0; i < from_end + 1; ++i) weight();
  }

  Actions take() { return std::move(out_); }

 private:
  enum Side : std::uint8_t { kNear, kFar };

  // Chunk 0 holds the stage of the first direction, chunk 1 that of the second; the second's micro-batches follow the first's.
  [[nodiscard]] std::uint32_t chunk(Side side) const {
    return static_cast<std::uint32_t>((side == kFar) != second_half_);
  }
  void add(ActionKind kind, Side side, std::uint32_t number, bool overlaps = false) {
    out_.push_back({kind, chunk(side) * half_ + number, chunk(side), overlaps});
  }
  void forward(Side side) { add(ActionKind::kForward, side, forwards_[side]++); }
  void backward(Side side, bool apart, bool overlaps = false) {
    add(apart ? ActionKind::kBackwardInput : ActionKind::kBackward, side, backwards_[side], overlaps);
    if (apart) weights_.push_back(out_.back());
    ++backwards_[side];
  }
  void pair(Side forward_side, Side backward_side, bool overlaps) {
    forward(forward_side);
    backward(backward_side, false, overlaps);
  }
  void weight() {
    out_.push_back(weights_.front());
    out_.back().kind = ActionKind::kBackwardWeight;
    weights_.pop_front();
  }

  std::uint32_t half_;
  bool second_half_;
  std::array<std::uint32_t, 2> forwards_{}, backwards_{};
  std::deque<PipelineAction> weights_;
  Actions out_;
};

Status check(const PipelineShape& s) {
  const auto refuse = [&](std::string why) {
    return fail(ErrorCode::kUsage, fmt::format("schedule {} {}", name_of(s.kind), why));
  };
  if (s.ranks == 0 || s.microbatches == 0 || s.chunks == 0) return refuse("needs stages, micro-batches and chunks");
  if (std::uint64_t{s.ranks} * s.microbatches * s.chunks > kMostPasses) {
    return refuse(fmt::format("with {} stages, {} micro-batches and {} chunks has more than {} passes", s.ranks,
                              s.microbatches, s.chunks, kMostPasses));
  }
  const bool one_chunk = s.kind == ScheduleKind::kGpipe || s.kind == ScheduleKind::kOneForwardOneBackward;
  if (one_chunk && s.chunks > 1) return refuse("has one chunk per stage; schedule=interleaved has several");
  if (s.kind == ScheduleKind::kInterleaved && s.chunks < 2) return refuse("needs chunks=2 or more");
  if (s.chunks > 1 && s.kind != ScheduleKind::kDualPipe && s.microbatches % rounds_of(s) != 0) {
    return refuse(fmt::format("cannot divide {} micro-batches into {} equal rounds", s.microbatches, rounds_of(s)));
  }
  if (s.kind == ScheduleKind::kDualPipe) {
    if (s.ranks % 2 != 0) return refuse("needs an even number of stages");
    if (s.microbatches % 2 != 0 || s.microbatches < 2 * s.ranks) {
      return refuse("needs an even number of micro-batches, at least twice the stages");
    }
  }
  return {};
}

}  // namespace

std::string_view name_of(ScheduleKind kind) { return kNames[static_cast<std::size_t>(kind)].name; }

Result<ScheduleKind> schedule_named(std::string_view name) {
  for (const Named& n : kNames) {
    if (n.name == name) return n.kind;
  }
  return fail(ErrorCode::kUsage, fmt::format("unknown schedule \"{}\"", name),
              "schedules are gpipe, 1f1b, interleaved, zb1p and dualpipe");
}

std::uint32_t PipelineSchedule::stages() const {
  return shape.kind == ScheduleKind::kDualPipe ? shape.ranks : shape.ranks * shape.chunks;
}

std::uint32_t PipelineSchedule::stage_of(std::uint32_t rank, std::uint32_t chunk) const {
  if (shape.kind == ScheduleKind::kDualPipe) return chunk == 0 ? rank : shape.ranks - 1 - rank;
  return chunk * shape.ranks + rank;
}

std::vector<std::uint32_t> PipelineSchedule::most_in_flight(std::uint32_t rank) const {
  std::vector<std::uint32_t> held(shape.chunks, 0);
  std::vector<std::uint32_t> most = held;
  const auto total = [](const auto& v) { return std::accumulate(v.begin(), v.end(), 0U); };
  for (const PipelineAction& a : ranks[rank]) {
    if (a.kind == ActionKind::kForward) ++held[a.chunk];
    if (total(held) > total(most)) most = held;
    if (a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardWeight) --held[a.chunk];
  }
  return most;
}

Result<PipelineSchedule> make_pipeline_schedule(const PipelineShape& asked) {
  PipelineShape shape = asked;
  if (shape.kind == ScheduleKind::kDualPipe) shape.chunks = 2;
  FORETRACE_TRY_VOID(check(shape));
  PipelineSchedule out{shape, {}};
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    if (shape.kind == ScheduleKind::kGpipe) {
      out.ranks.push_back(gpipe(shape));
    } else if (shape.kind == ScheduleKind::kDualPipe) {
      out.ranks.push_back(DualPipe(shape, rank).take());
    } else {
      out.ranks.push_back(alternating(shape, rank));
    }
  }
  return out;
}

std::string to_text(const std::vector<PipelineAction>& actions) {
  std::string out;
  for (const PipelineAction& a : actions) {
    if (!out.empty()) out += a.overlaps_previous ? '+' : ' ';
    out += "FBIW"[static_cast<std::size_t>(a.kind)];
    out += fmt::format("{}", a.microbatch);
    if (a.chunk > 0) out += fmt::format(".{}", a.chunk);
  }
  return out;
}

}  // namespace foretrace::simulate
