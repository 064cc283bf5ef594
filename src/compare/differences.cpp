// Names what changed between how two steps are run, as a what-if of the catalogue where there is one.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/statistics.hpp"
#include "compare/profile.hpp"
#include "compare/traits.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::compare {
namespace {

using graph::Phase;
using whatif::Changes;
using whatif::Difference;
using work::Dtype;
using work::Family;

// Shares of a step from which it counts as using FP8, and as working mostly in one way.
constexpr double kFp8Share = 0.05, kMajority = 0.5;
// Large products stay the library's: what a compiler writes can be a small part of GPU time.
constexpr double kCompiled = 0.005;

std::string type_name(Dtype dtype) {
  std::string name(work::to_string(dtype));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

// Names of the kinds of parameter updates, and the difference that each is.
struct UpdateWay {
  std::string_view text;
  std::optional<Difference> difference = {};
};
constexpr UpdateWay kUpdates[] = {{"unknown"},
                                  {"one parameter after the other"},
                                  {"over lists of parameters (foreach)", Difference::kUpdateOverLists},
                                  {"in fused kernels", Difference::kUpdateFused}};
const UpdateWay& way_of(Traits::Update update) { return kUpdates[static_cast<std::size_t>(update)]; }

std::optional<Difference> products_in(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp16:
      return Difference::kProductsInFp16;
    case Dtype::kBf16:
      return Difference::kProductsInBf16;
    case Dtype::kTf32:
      return Difference::kProductsInTf32;
    default:
      return {};
  }
}

// The change that makes this difference; empty where there is no such difference or change.
std::string whatif_for(std::optional<Difference> difference) {
  return difference ? whatif::use_that_explains(*difference) : "";
}

// The change of the catalogue that this is.
std::string_view whatif_for(Changes changes) { return whatif::first_whatif_that_changes(changes).name; }

// The scheme behind the collectives of a step; schemes are what-ifs of the same name.
std::string_view scheme(const Traits& traits) {
  return to_string(traits.collectives.contains("reduce-scatter") ? whatif::Scheme::kFsdp : whatif::Scheme::kDdp);
}

class Differences {
 public:
  Differences(const Profile& before, const Profile& after)
      : a_(before), b_(after), before_(before.traits), after_(after.traits) {}

  std::vector<Cause> all() {
    device();
    workers();
    graphs();
    compiled();
    passes();
    precision();
    attention();
    layout();
    recomputation();
    placement();
    optimizer();
    loader();
    waits();
    recording();
    return std::move(out_);
  }

 private:
  void say(std::string what, std::string where, double ns, std::string_view whatif = {},
           CauseKind kind = CauseKind::kSetup) {
    out_.push_back({kind, std::move(what), std::move(where), static_cast<Ns>(ns), std::string(whatif), 0});
  }

  // A trait that one side has and the other has not: `on` where AFTER has it, else `off`. Whether there is one.
  bool turned(bool before, bool after, const char* on, const char* off, std::string where, double ns,
              std::string_view whatif = {}, CauseKind kind = CauseKind::kSetup) {
    if (before != after) say(after ? on : off, std::move(where), ns, whatif, kind);
    return before != after;
  }

  // GPU time after less before, of the work that `take` takes.
  template <class Take>
  [[nodiscard]] double gpu(Take take) const {
    double change = 0;
    for (const auto& [key, item] : a_.gpu) change -= take(item) ? item.ns : 0;
    for (const auto& [key, item] : b_.gpu) change += take(item) ? item.ns : 0;
    return change;
  }
  [[nodiscard]] double all_gpu() const { return b_.gpu_ns - a_.gpu_ns; }
  [[nodiscard]] double step_change() const { return middle(b_.traced_ns) - middle(a_.traced_ns); }
  static double middle(std::vector<double> values) { return values.empty() ? 0 : median(values); }

  void device() {
    if (a_.device == b_.device || a_.device.empty() || b_.device.empty()) return;
    say(fmt::format("another GPU: {} instead of {}", b_.device, a_.device), "", all_gpu(),
        whatif_for(Changes::kDevice));
  }

  static std::string calls(const std::map<std::string, double>& collectives) {
    std::string out;
    for (const auto& [kind, count] : collectives) {
      out += fmt::format("{}{} {} calls", out.empty() ? "" : ", ", kind, std::llround(count));
    }
    return out;
  }

  void workers() {
    const auto communication = [](const GpuItem& item) { return item.family == Family::kCommunication; };
    if (before_.world != after_.world) {
      say(fmt::format("{} workers instead of {}", after_.world, before_.world), calls(after_.collectives),
          gpu(communication), scheme(after_));
      return;
    }
    if (before_.collectives.empty() != after_.collectives.empty()) {
      const bool appeared = before_.collectives.empty();
      const bool sharded = (appeared ? after_ : before_).collectives.contains("reduce-scatter");
      say(fmt::format("communication between workers {}{}", appeared ? "appeared" : "is gone",
                      sharded ? " (sharded: reduce-scatter and all-gather)" : ""),
          calls(appeared ? after_.collectives : before_.collectives), gpu(communication),
          scheme(appeared ? after_ : before_));
      return;
    }
    std::string kinds_before, kinds_after;
    double calls_before = 0, calls_after = 0;
    for (const auto& [kind, count] : before_.collectives) kinds_before += kind + ", ", calls_before += count;
    for (const auto& [kind, count] : after_.collectives) kinds_after += kind + ", ", calls_after += count;
    if (kinds_before != kinds_after) {
      say(fmt::format("other communication: {} instead of {}", calls(after_.collectives), calls(before_.collectives)),
          "", gpu(communication), after_.collectives.contains("reduce-scatter") ? scheme(after_) : "");
    } else if (before_.collective_types != after_.collective_types) {
      std::string types;
      for (const auto& [kind, type] : after_.collective_types)
        types += fmt::format("{}{} in {}", types.empty() ? "" : ", ", kind, type);
      say("gradients are sent in another type: " + types, calls(after_.collectives), gpu(communication),
          whatif_for(Difference::kGradientsInOtherType));
    } else if (std::abs(calls_after - calls_before) > std::max(1.0, 0.2 * calls_before)) {
      say(fmt::format("communication in {} calls instead of {}: other buckets", std::llround(calls_after),
                      std::llround(calls_before)),
          calls(after_.collectives), gpu(communication), whatif_for(Difference::kOtherBuckets));
    }
  }

  void graphs() {
    const bool before = before_.graph_share > kMajority, after = after_.graph_share > kMajority;
    changed_runtime_ |= turned(
        before, after, "the step is launched as a CUDA graph", "the step is no longer launched as a CUDA graph",
        fmt::format("{} launches instead of {}", std::llround(b_.launches * (1 - after_.graph_share)) + (after ? 1 : 0),
                    std::llround(a_.launches * (1 - before_.graph_share)) + (after ? 0 : 1)),
        step_change(), whatif_for(Changes::kLaunches));
  }

  void compiled() {
    changed_runtime_ |=
        turned(before_.compiled_share > kCompiled, after_.compiled_share > kCompiled,
               "the model is compiled: kernels written by a compiler", "the model is no longer compiled",
               fmt::format("{:.0f} % of GPU time in Triton kernels",
                           100 * std::max(before_.compiled_share, after_.compiled_share)),
               all_gpu(), whatif_for(Changes::kCompilation));
  }

  // Passes and samples of a pass, by the operations both sides have.
  void passes() {
    std::vector<double> calls, sizes;
    for (const auto& [key, before] : before_.sizes) {
      const auto at = after_.sizes.find(key);
      if (at == after_.sizes.end() || before.elements <= 0 || at->second.elements <= 0) continue;
      calls.push_back(at->second.calls / before.calls);
      sizes.push_back((at->second.elements / at->second.calls) / (before.elements / before.calls));
    }
    if (calls.empty() || calls.size() < before_.sizes.size() / 3) return;
    const double times = middle(calls), size = middle(sizes);
    const bool same_size = std::abs(std::log(size)) < 0.02;
    if (std::abs(times * size - 1) < 0.02 && !same_size) {
      if (times > 1) {
        say(fmt::format("the batch is cut into {} passes", std::llround(times)), "every layer", all_gpu(),
            fmt::format("{}:n={}", whatif_for(Changes::kAccumulation), std::llround(times)));
      } else {
        say("fewer passes of a larger batch", "every layer", all_gpu());
      }
      return;
    }
    if (!same_size) {
      say(fmt::format("{:.3g} times the work in every pass: another batch or sequence length", size), "every layer",
          all_gpu(), fmt::format("{}:x={:.3g}", whatif_for(Changes::kBatch), size));
    }
    if (std::abs(times - 1) > 0.02) {
      say(fmt::format("{:.3g} times as many passes over the model", times), "every layer", all_gpu());
    }
  }

  [[nodiscard]] static bool is_attention(const GpuItem& item) {
    return item.family == Family::kAttention || item.family == Family::kSoftmax || item.op == "aten::bmm" ||
           item.op == "aten::baddbmm";
  }

  void precision() {
    const auto computes = [this](const GpuItem& item) {
      return item.phase != Phase::kOptimizer && item.family != Family::kCommunication &&
             !(attention_changed() && is_attention(item));
    };
    const bool half_before = before_.half_share > kMajority, half_after = after_.half_share > kMajority;
    const bool known = before_.precision != Dtype::kOther && after_.precision != Dtype::kOther;
    if (known && before_.precision != after_.precision) {
      const std::string scaled = after_.loss_scaling > 0 && before_.loss_scaling == 0 ? ", with loss scaling" : "";
      const std::string text = fmt::format("{}: most products in {} instead of {}{}",
                                           half_before != half_after ? "mixed precision" : "another precision",
                                           type_name(after_.precision), type_name(before_.precision), scaled);
      say(text, "products and what surrounds them", gpu(computes), whatif_for(products_in(after_.precision)));
    } else if (known && std::abs(after_.half_share - before_.half_share) > 0.1) {
      say(fmt::format("{:.0f} % of the products' work in half precision instead of {:.0f} %", 100 * after_.half_share,
                      100 * before_.half_share),
          "", gpu(computes));
    }
    turned(before_.fp8_ns > kFp8Share * a_.gpu_ns, after_.fp8_ns > kFp8Share * b_.gpu_ns, "products in FP8",
           "products no longer in FP8", "linear layers", gpu(computes));
  }

  // Inside a CUDA graph operations are not shown, so a change there cannot be seen.
  [[nodiscard]] bool attention_changed() const {
    return (before_.attention_ns > 0.002 * a_.gpu_ns) != (after_.attention_ns > 0.002 * b_.gpu_ns) &&
           !(after_.graph_share > kMajority || before_.graph_share > kMajority);
  }
  void attention() {
    if (!attention_changed()) return;
    const bool on = after_.attention_ns > before_.attention_ns;
    say(on ? "attention in fused kernels" : "attention as products and softmax, no longer in fused kernels",
        "attention", gpu(is_attention), on ? whatif_for(Difference::kAttentionFused) : "");
  }

  void layout() {
    if (before_.channels_last < 0 || after_.channels_last < 0) return;
    const auto follows_layout = [](const GpuItem& i) {
      return i.family == Family::kConvForward || i.family == Family::kConvDataGrad ||
             i.family == Family::kConvWeightGrad || i.family == Family::kBatchNorm || i.family == Family::kPooling;
    };
    turned(before_.channels_last > kMajority, after_.channels_last > kMajority, "convolutions in channels-last layout",
           "convolutions no longer in channels-last layout", "convolutions", gpu(follows_layout),
           after_.channels_last > kMajority ? whatif_for(Changes::kLayout) : "");
  }

  void recomputation() {
    if (std::abs(after_.recomputed - before_.recomputed) < 0.1) return;
    const bool more = after_.recomputed > before_.recomputed;
    say(fmt::format("{:.0f} % of the forward pass's kernels run again in backward, {:.0f} % before: activation "
                    "checkpointing",
                    100 * after_.recomputed, 100 * before_.recomputed),
        "backward", gpu([](const GpuItem& i) { return i.phase == Phase::kBackward; }),
        more ? whatif_for(Changes::kRecomputation) : "");
  }

  void placement() {
    const double more = after_.host_copy_bytes - before_.host_copy_bytes;
    if (std::abs(more) < 64e6 || std::abs(more) < before_.host_copy_bytes) return;
    say(fmt::format("{:.2f} GB copied between host and GPU instead of {:.2f}", after_.host_copy_bytes / 1e9,
                    before_.host_copy_bytes / 1e9),
        "copies", gpu([](const GpuItem& i) { return i.from_host; }),
        more > 0 ? whatif_for(Difference::kMoreHostCopies) : "");
  }

  void optimizer() {
    const auto updates = [](const GpuItem& i) { return i.phase == Phase::kOptimizer; };
    if (!before_.optimizer.empty() && !after_.optimizer.empty() && before_.optimizer != after_.optimizer) {
      say(fmt::format("another optimizer: {} instead of {}", after_.optimizer, before_.optimizer), "optimizer",
          gpu(updates));
      return;
    }
    if (before_.update == after_.update || before_.update == Traits::Update::kUnknown ||
        after_.update == Traits::Update::kUnknown) {
      return;
    }
    const UpdateWay &now = way_of(after_.update), &then = way_of(before_.update);
    say(fmt::format("the optimizer works {} instead of {}", now.text, then.text), "optimizer", gpu(updates),
        whatif_for(now.difference));
  }

  void loader() {
    if (before_.loader == after_.loader || before_.loader.empty() || after_.loader.empty()) return;
    say(fmt::format("batches are loaded {} instead of {}", after_.loader, before_.loader), "data", 0,
        after_.loader == "in worker processes" ? whatif_for(Changes::kInput) : "");
  }

  void waits() {
    if (changed_runtime_) return;
    const auto before = static_cast<double>(a_.syncs), after = static_cast<double>(b_.syncs);
    if ((before > 0) == (after > 0) && std::abs(after - before) < std::max(5.0, before)) return;
    say(after < before ? fmt::format("the CPU waits for the GPU {} times a step instead of {}", b_.syncs, a_.syncs)
                       : fmt::format("the CPU waits for the GPU {} times a step, {} before", b_.syncs, a_.syncs),
        "synchronising calls", step_change(), after == 0 ? whatif_for(Changes::kWaits) : "", CauseKind::kWaits);
  }

  void recording() {
    turned(before_.python_frames, after_.python_frames, "recorded with Python stacks, which cost time",
           "recorded without Python stacks", "", 0, {}, CauseKind::kRecording);
    if (changed_runtime_) return;  // compiled code and CUDA graphs show neither layers nor shapes
    turned(before_.layer_ranges, after_.layer_ranges, "recorded with ranges that name layers",
           "recorded without ranges that name layers", "", 0, {}, CauseKind::kRecording);
    turned(before_.shapes, after_.shapes, "recorded with shapes", "recorded without shapes", "", 0, {},
           CauseKind::kRecording);
  }

  const Profile& a_;
  const Profile& b_;
  const Traits& before_;
  const Traits& after_;
  std::vector<Cause> out_;
  bool changed_runtime_ = false;
};

}  // namespace

std::vector<Cause> differences(const Profile& before, const Profile& after) { return Differences(before, after).all(); }

}  // namespace foretrace::compare
