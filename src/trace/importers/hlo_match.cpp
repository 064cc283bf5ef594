#include "trace/importers/hlo_match.hpp"

#include <algorithm>
#include <unordered_map>

#include "base/text.hpp"

namespace foretrace::trace {

namespace {

// "input_transpose_fusion_1_2" -> "input_transpose_fusion": fusions that compute the same share one kernel, so that the number
// at its end may be another one's.
std::string_view without_number(std::string_view name) {
  while (!name.empty()) {
    const std::size_t end = name.find_last_not_of("0123456789");
    if (end == std::string_view::npos || end + 1 == name.size() || name[end] != '_') break;
    name = name.substr(0, end);
  }
  return name;
}

// Kernels that finish what the one before them began.
bool continues(std::string_view name) {
  return contains(name, "splitK") || contains(name, "splitk") || contains(name, "reduce_kernel");
}

// A turn of a loop takes its slices of stacked tensors and puts its own back: where that is a plain copy, XLA leaves it to the driver, whose kernels
// say nothing of the fusion.
bool may_be_a_copy(const HloModule::Launch& launch) {
  return launch.kind == HloKind::kGenerated &&
         (contains(launch.kernel, "dynamic_slice") || contains(launch.kernel, "dynamic_update_slice"));
}

class Matcher {
 public:
  Matcher(const HloModule& module, const std::vector<RanKernel>& kernels) : m_(module), k_(kernels) {
    for (std::uint32_t l = 0; l < m_.launches.size(); ++l) {
      if (m_.launches[l].kind == HloKind::kGenerated) by_kernel_.try_emplace(m_.launches[l].kernel, l);
    }
  }

  std::vector<KernelOrigin> run() {
    out_.resize(k_.size());
    std::size_t from = 0;
    std::uint32_t position = kNone;  // of the last kernel whose instruction is known
    for (std::size_t i = 0; i < k_.size(); ++i) {
      const std::uint32_t launch = known(k_[i], position);
      if (launch == kNone) continue;
      between(from, i, position, launch);
      // A library's call may be many kernels, on several streams; each names it.
      const bool goes_on = i > 0 && from == i && launch == position && m_.launches[launch].kind == HloKind::kLibrary;
      out_[i] = {launch, goes_on ? out_[i - 1].part + 1 : 0};
      position = launch;
      from = i + 1;
    }
    between(from, k_.size(), position, kNone);
    return std::move(out_);
  }

 private:
  // The instruction a kernel names, or of a generated kernel the next that could have this name.
  [[nodiscard]] std::uint32_t known(const RanKernel& kernel, std::uint32_t position) const {
    if (!kernel.instruction.empty()) {
      if (const std::uint32_t named = m_.find(kernel.instruction); named != kNone) return named;
    }
    const auto exact = by_kernel_.find(std::string(kernel.name));
    if (exact == by_kernel_.end()) return kNone;
    // A kernel that several fusions share has the name of the first of them.
    if (position != kNone && exact->second > position && same_loops(position, exact->second)) return exact->second;
    const std::uint32_t next = next_like(kernel.name, position == kNone ? 0 : position + 1);
    const std::uint32_t again = next_turn(kernel.name, position, next);
    // At the end of a loop both its beginning and what follows it may share a kernel's name but for the number.
    if (again != kNone && m_.launches[again].kernel == kernel.name) return again;
    if (next != kNone && fits(next, kernel.name)) return next;
    if (again != kNone) return again;
    for (std::uint32_t l = next == kNone ? kNone : next; l < m_.launches.size(); ++l) {
      if (m_.launches[l].kernel == kernel.name) return l;
    }
    // The program begins again, or a loop somewhere in the middle of its body.
    const std::uint32_t first = next_generated(0);
    const bool in_loop = position != kNone && std::any_of(m_.loops.begin(), m_.loops.end(), [&](const auto& loop) {
                           return loop.holds(position) && loop.holds(exact->second);
                         });
    return !in_loop && fits(first, kernel.name) ? first : exact->second;
  }
  [[nodiscard]] bool same_loops(std::uint32_t a, std::uint32_t b) const {
    return std::all_of(m_.loops.begin(), m_.loops.end(),
                       [&](const HloModule::Loop& loop) { return loop.holds(a) == loop.holds(b); });
  }
  // The next generated kernel, or one behind fusions that may have run as copies.
  [[nodiscard]] std::uint32_t next_like(std::string_view kernel, std::uint32_t from) const {
    const std::uint32_t next = next_generated(from);
    for (std::uint32_t l = next; l != kNone; l = next_generated(l + 1)) {
      if (fits(l, kernel)) return l;
      if (!may_be_a_copy(m_.launches[l])) break;
    }
    return next;
  }
  // Behind the last generated kernel of a loop's body: its first, where the kernel may be that one.
  [[nodiscard]] std::uint32_t next_turn(std::string_view kernel, std::uint32_t position, std::uint32_t next) const {
    if (position == kNone) return kNone;
    for (const HloModule::Loop& loop : m_.loops) {
      if (!loop.holds(position) || (next != kNone && loop.holds(next))) continue;
      const std::uint32_t first = next_generated(loop.begin);
      if (first != kNone && loop.holds(first) && fits(first, kernel)) return first;
    }
    return kNone;
  }
  [[nodiscard]] bool fits(std::uint32_t launch, std::string_view kernel) const {
    const std::string& own = m_.launches[launch].kernel;
    return own == kernel || without_number(own) == without_number(kernel);
  }
  [[nodiscard]] std::uint32_t next_generated(std::uint32_t from) const {
    for (std::uint32_t l = from; l < m_.launches.size(); ++l) {
      if (m_.launches[l].kind == HloKind::kGenerated) return l;
    }
    return kNone;
  }

  enum class Sort : std::uint8_t { kCopy, kCollective, kLibrary };
  [[nodiscard]] static Sort sort_of(const RanKernel& kernel) {
    if (kernel.copy || kernel.name.starts_with("memcpy")) return Sort::kCopy;
    return kernel.collective ? Sort::kCollective : Sort::kLibrary;
  }
  [[nodiscard]] static Sort sort_of(HloKind kind) {
    if (kind == HloKind::kCopy || kind == HloKind::kGenerated) return Sort::kCopy;
    return kind == HloKind::kCollective ? Sort::kCollective : Sort::kLibrary;
  }

  // Kernels between two that are known are of the instructions between theirs. Where a loop or the program began again in
  // between, those are its end and its beginning.
  void between(std::size_t begin, std::size_t end, std::uint32_t after, std::uint32_t before) {
    if (begin == end) return;
    std::vector<std::uint32_t> gap;
    const auto collect = [&](std::uint32_t from, std::uint32_t to) {
      for (std::uint32_t l = from; l < to; ++l) {
        if (m_.launches[l].kind != HloKind::kGenerated || may_be_a_copy(m_.launches[l])) gap.push_back(l);
      }
    };
    const auto size = static_cast<std::uint32_t>(m_.launches.size());
    const std::uint32_t from = after == kNone ? 0 : after + 1;
    const std::uint32_t to = before == kNone ? size : before;
    if (from <= to) {
      collect(from, to);
    } else {
      const auto loop = std::find_if(m_.loops.begin(), m_.loops.end(),
                                     [&](const auto& l) { return l.holds(after) && l.holds(before); });
      collect(from, loop == m_.loops.end() ? size : loop->end);
      collect(loop == m_.loops.end() ? 0 : loop->begin, to);
    }
    for (const Sort sort : {Sort::kCopy, Sort::kCollective, Sort::kLibrary}) {
      std::vector<std::uint32_t> launches;
      for (const std::uint32_t l : gap) {
        if (sort_of(m_.launches[l].kind) == sort) launches.push_back(l);
      }
      if (launches.empty()) continue;
      deal(begin, end, sort, launches);
    }
  }

  // One group of kernels to each instruction, in order: fills before a kernel and reductions behind it belong to it. Where
  // groups are more than instructions, those too many go to the last.
  void deal(std::size_t begin, std::size_t end, Sort sort, const std::vector<std::uint32_t>& launches) {
    std::size_t group = 0;
    std::uint32_t part = 0;
    bool has_main = false;
    for (std::size_t i = begin; i < end; ++i) {
      if (sort_of(k_[i]) != sort) continue;
      const bool finishing = has_main && continues(k_[i].name);
      if (has_main && !finishing && group + 1 < launches.size()) {
        ++group;
        part = 0;
        has_main = false;
      }
      out_[i] = {launches[group], part++};
      has_main = has_main || !k_[i].fill;
    }
  }

  const HloModule& m_;
  const std::vector<RanKernel>& k_;
  std::unordered_map<std::string, std::uint32_t> by_kernel_;
  std::vector<KernelOrigin> out_;
};

}  // namespace

std::vector<KernelOrigin> match_kernels(const HloModule& module, const std::vector<RanKernel>& kernels) {
  if (module.launches.empty()) return std::vector<KernelOrigin>(kernels.size());
  return Matcher(module, kernels).run();
}

}  // namespace foretrace::trace
