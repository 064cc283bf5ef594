// The memory of a step while a user's what-if changes it.

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "bindings.hpp"
#include "named.hpp"
#include "open_draft.hpp"
#include "views.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

constexpr std::uint32_t kNotFreed = std::numeric_limits<std::uint32_t>::max();
constexpr double kMostBytes = 1e15;
// As phases of the graph are called; the stages of the allocator's curve in their order.
constexpr std::array<std::string_view, 3> kStages = {"forward", "backward", "optimizer"};

[[noreturn]] void refuse(const std::string& message) { throw nb::value_error(message.c_str()); }

std::int64_t checked_bytes(double bytes) {
  if (!(bytes >= 0) || bytes > kMostBytes)
    refuse(fmt::format("a size in bytes must be 0 or more, and finite: not {}", bytes));
  return std::llround(bytes);
}

double checked_factor(double factor) {
  if (!(factor >= 0) || !std::isfinite(factor))
    refuse(fmt::format("a factor must be 0 or more, and finite: not {}", factor));
  return factor;
}

std::uint32_t position(const memory::Curve& curve, std::int64_t at) {
  if (at < 0 || at > static_cast<std::int64_t>(curve.positions)) {
    throw nb::index_error(
        fmt::format("there is no position {} in the step; there are {}", at, curve.positions).c_str());
  }
  return static_cast<std::uint32_t>(at);
}

memory::Kind memory_kind(std::string_view name) {
  return named<memory::Kind>("kind of memory", name, memory::kKinds,
                             [](memory::Kind k) { return kMemoryKinds[static_cast<std::size_t>(k)]; });
}

}  // namespace

bool OpenDraft::has_memory() {
  static_cast<void>(draft());
  return model_->memory.has_value();
}

memory::Curve& OpenDraft::memory() {
  if (!has_memory()) refuse("the trace has no memory events");
  return *model_->memory;
}

memory::Block& OpenDraft::block(std::int64_t id) {
  memory::Curve& curve = memory();
  if (id < 0 || static_cast<std::size_t>(id) >= curve.blocks.size()) {
    throw nb::index_error(fmt::format("there is no block {}; there are {}", id, curve.blocks.size()).c_str());
  }
  return curve.blocks[static_cast<std::size_t>(id)];
}

nb::object OpenDraft::memory_column(std::string_view name) {
  Column<std::int64_t> out;
  for (const memory::Block& b : memory().blocks) {
    if (name == "bytes") {
      out.push_back(b.bytes);
    } else if (name == "allocated") {
      out.push_back(b.allocated);
    } else if (name == "freed") {
      out.push_back(b.freed == kNotFreed ? -1 : static_cast<std::int64_t>(b.freed));
    } else if (name == "kind") {
      out.push_back(static_cast<std::int64_t>(b.kind));
    } else {
      throw nb::key_error(std::string(name).c_str());
    }
  }
  return give(std::move(out));
}

std::int64_t OpenDraft::memory_peak() {
  memory::Curve now = memory();
  now.blocks.insert(now.blocks.end(), added_blocks_.begin(), added_blocks_.end());
  memory::recompute(now);
  return now.peak_bytes;
}

nb::object OpenDraft::memory_select(const std::optional<std::string>& kind, const std::optional<std::string>& phase,
                                    const std::string& op, const std::string& layer) {
  const memory::Curve& curve = memory();
  std::optional<memory::Kind> of;
  if (kind) of = memory_kind(*kind);
  std::optional<memory::Stage> in;
  if (phase) {
    in = named<memory::Stage>("phase of memory", *phase, kStages.size(),
                              [](memory::Stage s) { return kStages[static_cast<std::size_t>(s)]; });
  }
  // As of tasks: an operation allocates for those around it too.
  const trace::Trace& trace = *model_->trace;
  const std::vector<bool> ops = op.empty() ? std::vector<bool>() : whatif::matching_operations(*model_, op);
  const auto within = [&](const memory::Block& b) {
    if (!op.empty() && (b.op >= ops.size() || !ops[b.op])) return false;
    return layer.empty() || (b.layer < trace.size() && whatif::glob_match(layer, trace.name(b.layer)));
  };
  Column<std::int64_t> found;
  for (std::size_t i = 0; i < curve.blocks.size(); ++i) {
    const memory::Block& b = curve.blocks[i];
    if ((of && b.kind != *of) || (in && b.stage != *in)) continue;
    if (within(b)) found.push_back(static_cast<std::int64_t>(i));
  }
  return give(std::move(found));
}

void OpenDraft::memory_scale(const TaskIds& blocks, const Numbers& factors) {
  const std::size_t n = blocks.shape(0);
  if (factors.shape(0) != 1 && factors.shape(0) != n) {
    refuse(fmt::format("scale needs one value, or one for each of the {} blocks: not {}", n, factors.shape(0)));
  }
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < n; ++i) {
    const double factor = checked_factor(factors(factors.shape(0) == 1 ? 0 : i));
    sizes.push_back(checked_bytes(static_cast<double>(block(blocks(i)).bytes) * factor));
  }
  for (std::size_t i = 0; i < n; ++i) block(blocks(i)).bytes = sizes[i];
  if (n > 0) draft().note_change();
}

void OpenDraft::memory_free(const TaskIds& blocks, const TaskIds& positions) {
  const std::size_t n = blocks.shape(0);
  if (positions.shape(0) != 1 && positions.shape(0) != n) {
    refuse(fmt::format("free needs one position, or one for each of the {} blocks: not {}", n, positions.shape(0)));
  }
  std::vector<std::uint32_t> ends;
  for (std::size_t i = 0; i < n; ++i) {
    ends.push_back(position(memory(), positions(positions.shape(0) == 1 ? 0 : i)));
    if (ends.back() < block(blocks(i)).allocated) {
      refuse(fmt::format("block {} is allocated at {} and cannot be freed at {}", blocks(i), block(blocks(i)).allocated,
                         ends.back()));
    }
  }
  for (std::size_t i = 0; i < n; ++i) block(blocks(i)).freed = ends[i];
  if (n > 0) draft().note_change();
}

void OpenDraft::memory_add(std::int64_t bytes, std::string_view kind, std::int64_t allocated,
                           std::optional<std::int64_t> freed) {
  memory::Curve& curve = memory();
  memory::Block b;
  b.bytes = checked_bytes(static_cast<double>(bytes));
  b.kind = memory_kind(kind);
  b.allocated = position(curve, allocated);
  b.freed = freed ? position(curve, *freed) : kNotFreed;
  if (b.freed < b.allocated)
    refuse(fmt::format("a block cannot be freed at {} and allocated at {}", b.freed, b.allocated));
  b.stage = b.allocated >= curve.update_from     ? memory::Stage::kUpdate
            : b.allocated >= curve.backward_from ? memory::Stage::kBackward
                                                 : memory::Stage::kForward;
  added_blocks_.push_back(b);
  draft().note_change();
}

void OpenDraft::add_blocks() {
  if (added_blocks_.empty()) return;
  std::vector<memory::Block>& blocks = memory().blocks;
  blocks.insert(blocks.end(), added_blocks_.begin(), added_blocks_.end());
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const memory::Block& a, const memory::Block& b) { return a.allocated < b.allocated; });
}

void OpenDraft::memory_scale_batch(double factor) {
  memory::scale_batch(memory(), checked_factor(factor));
  draft().note_change();
}

void OpenDraft::scale_batch(double factor) {
  static_cast<void>(draft());
  if (!(factor > 0) || !std::isfinite(factor))
    refuse(fmt::format("a batch is scaled by a number above 0, not {}", factor));
  model_->samples *= factor;
  model_->pass_samples *= factor;
}

}  // namespace foretrace::python
