#include "whatif/rewrite/lossless_codes.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>

#include "base/text.hpp"
#include "hardware/cost.hpp"
#include "trace/latencies.hpp"
#include "whatif/dataflow/saved_tensors.hpp"
#include "whatif/rewrite/python_launches.hpp"
#include "whatif/rewrite/unit_rows.hpp"

namespace foretrace::whatif {
namespace {

using work::Family;
using work::Work;

// Smaller ones are not worth the kernels.
constexpr std::int64_t kFewestElements = 1 << 18;
constexpr double kValue = 4, kBit = 1.0 / 8,
                 kPlace = 1;  // bytes of an element's value, of its bit, of a place in a pooling window
constexpr double kIndex = 8;  // of PyTorch's index instead of such a place

bool is_relu(std::string_view op) { return contains_any(op, {"relu", "clamp_min"}) && !contains_any(op, {"leaky"}); }
bool is_pool(std::string_view op) { return contains_any(op, {"max_pool2d"}); }
bool is_convolution(std::string_view op) { return contains_any(op, {"conv"}); }

class Encoder {
 public:
  Encoder(Model& m, Draft& draft, double zeros)
      : m_(m),
        draft_(draft),
        zeros_(zeros),
        held_(shared_flow(m)),
        flow_(*held_),
        rows_(rows_of(m, draft)),
        parts_(rows_by_unit(m, flow_, rows_)) {}

  Status run() {
    if (std::string why = why_saved_unknown(m_); !why.empty()) return fail(ErrorCode::kDeclined, std::move(why));
    find();
    if (relus_.empty()) return fail(ErrorCode::kDeclined, "no ReLU keeps FP32 numbers for the backward pass");
    const std::vector<SavedTensor> saved = saved_tensors(m_, draft_);
    for (const std::uint32_t u : relus_) rewrite(u, 2, kBit / kValue, 3, kBit / kValue - 1);
    for (const std::uint32_t u : pools_) shorten_pool(u);
    for (const auto& [value, convs] : sparse_) encode(convs);
    release(saved);
    return {};
  }

 private:
  void find() {
    for (std::uint32_t u = 0; u < flow_.units.size(); ++u) {
      const std::string_view name = flow_.units[u].name;
      const std::uint32_t source = source_of(flow_, u);
      if (is_relu(name) && in_fp32(u)) {
        relus_.insert(u);
      } else if (is_pool(name) && relus_.contains(source) && consumers(source) == 1) {
        pools_.insert(u);
      } else if (is_convolution(name) && (relus_.contains(source) || pools_.contains(source)) && in_fp32(u) &&
                 flow_.units[u].inputs.front().elements >= kFewestElements) {
        sparse_[flow_.content(flow_.units[u].inputs.front().value)].push_back(u);
      }
    }
  }

  [[nodiscard]] bool in_fp32(std::uint32_t unit) const {
    const auto found = parts_.find(unit);
    return found != parts_.end() && !found->second.forward.empty() &&
           bytes_of(m_.works[found->second.forward.front()->work].dtype) == static_cast<std::int64_t>(kValue);
  }

  [[nodiscard]] std::size_t consumers(std::uint32_t unit) const {
    const std::vector<std::uint32_t>& made = flow_.units[unit].outputs;
    return made.empty() ? 0 : flow_.values[made.front()].consumers.size();
  }

  // Rows of an operation take as much longer as they move more bytes: `forward` and `backward` passes over values before, so many more
  // or less of them now.
  void rewrite(std::uint32_t unit, double forward, double more, double backward, double more_backward) {
    const UnitRows& of = parts_[unit];
    for (const Row* r : of.forward) replace(*r, (forward + more) / forward);
    for (const Row* r : of.backward) replace(*r, (backward + more_backward) / backward);
  }

  // An autograd function of one kernel does it, `factor` times as long on the GPU.
  void replace(const Row& r, double factor) {
    scale(r, factor, true);
    launch_from_python(m_, draft_, r, 1, 1);
  }

  void scale(const Row& r, double factor, bool written = false) {
    Work w = m_.works[r.work];
    w.written = written;
    w.bytes_read *= factor;
    w.bytes_written *= factor;
    set_row(m_, draft_, r, static_cast<double>(r.time) * factor, w, graph::Origin::kScaled);
  }

  // A pooling layer reads its input once and writes a value and an index, or a place in the window, for each result.
  void shorten_pool(std::uint32_t unit) {
    const UnitRows& of = parts_[unit];
    for (const auto* rows : {&of.forward, &of.backward}) {
      for (const Row* r : *rows) {
        const auto* pool = std::get_if<work::Pooling>(&m_.works[r->work].kind);
        if (pool == nullptr || pool->outputs <= 0) continue;
        const double in =
            kValue * static_cast<double>(pool->input[0] * pool->input[1] * pool->input[2] * pool->input[3]);
        const double out = static_cast<double>(pool->outputs);
        replace(*r, (in + out * (kValue + kPlace)) / (in + out * (kValue + kIndex)));
      }
    }
  }

  [[nodiscard]] static Work moving(std::int64_t elements, double read, double written) {
    Work w = work::elementwise_work(elements, 1, 1, work::Dtype::kFp32);
    w.bytes_read = read * static_cast<double>(elements);
    w.bytes_written = written * static_cast<double>(elements);
    w.written = true;
    return w;
  }

  // Bits first, then how many values there are, which the host waits for, then those values; backward all of them are put back.
  void encode(const std::vector<std::uint32_t>& convs) {
    const std::int64_t elements = flow_.units[convs.front()].inputs.front().elements;
    const std::uint32_t first = parts_[convs.front()].forward.front()->tasks.front();
    Place at = place_before(m_.graph, first);
    if (!at.known()) return;
    const double kept = kValue * (1 - zeros_);
    const NewKernel kernel{.phase = Phase::kForward,
                           .layer = m_.graph.layer[first],
                           .cpu_cost = m_.cpu_time(m_.host.python.launch_us, Phase::kForward)};
    insert_work(m_, draft_, at, "which values are not zero", moving(elements, kValue, kBit), kernel);
    NewKernel count = kernel;
    count.name = "how many they are";
    count.cpu_cost = m_.cpu_time(m_.host.eager.op_us, Phase::kForward);
    count.cost = m_.latencies->short_kernel;
    count.after = at;
    at = draft_.insert(count);
    const std::uint32_t wait = draft_.insert_wait(at.cpu, "wait for their number");
    draft_.depend(at.gpu, wait, m_.latencies->sync_return, DependencyKind::kSync);
    at.cpu = wait;
    insert_work(m_, draft_, at, "values that are not zero", moving(elements, kValue + kBit, kept), kernel);
    for (const std::uint32_t u : convs) {
      for (const Row* r : parts_[u].backward) {
        if (m_.works[r->work].family != Family::kConvWeightGrad) continue;
        Place back = place_before(m_.graph, r->tasks.front());
        NewKernel again = kernel;
        again.phase = Phase::kBackward;
        again.cpu_cost = m_.cpu_time(m_.host.python.launch_us, Phase::kBackward);
        insert_work(m_, draft_, back, "values and zeros", moving(elements, kept + kBit, kValue), again);
      }
    }
  }

  void release(const std::vector<SavedTensor>& saved) {
    std::vector<SavedTensor> sparse, bits, places;
    std::set<std::uint32_t> encoded, alone,
        keeping;  // what a convolution keeps, what only its ReLU does; the convolutions
    for (const auto& [value, convs] : sparse_) {
      keeping.insert(convs.front());
      encoded.insert(flow_.values[value].producer);
    }
    std::set_difference(relus_.begin(), relus_.end(), encoded.begin(), encoded.end(),
                        std::inserter(alone, alone.end()));
    for (const SavedTensor& s : saved) {
      if (s.parameter) continue;
      const std::uint32_t unit = flow_.unit_of(s.op);
      if (unit == kNone) continue;
      if (alone.contains(unit)) bits.push_back(s);
      if (pools_.contains(unit) && !s.floating) places.push_back(s);
      if (keeping.contains(unit)) sparse.push_back(s);
    }
    const auto made_by = [this](std::set<std::uint32_t> units) {
      return [this, units = std::move(units)](std::uint32_t op) { return units.contains(flow_.unit_of(op)); };
    };
    release_saved(m_, sparse, 1 - zeros_ + 2 * kBit / kValue, made_by(memory_of(encoded)));
    release_saved(m_, bits, kBit / kValue, made_by(memory_of(alone)));
    release_saved(m_, places, kPlace / kIndex, made_by(pools_));
  }

  // Units that allocated what these wrote: an operation in place wrote into what another one did.
  [[nodiscard]] std::set<std::uint32_t> memory_of(const std::set<std::uint32_t>& units) const {
    std::set<std::uint32_t> found;
    for (const std::uint32_t u : units) {
      for (const std::uint32_t value : flow_.units[u].outputs)
        found.insert(flow_.values[flow_.values[value].storage].producer);
    }
    return found;
  }

  Model& m_;
  Draft& draft_;
  double zeros_;
  std::shared_ptr<const Dataflow> held_;
  const Dataflow& flow_;
  std::vector<Row> rows_;
  std::map<std::uint32_t, UnitRows> parts_;
  std::set<std::uint32_t> relus_, pools_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> sparse_;  // convolutions by the value they keep
};

}  // namespace

Status encode_losslessly(Model& m, Draft& draft, double zeros) { return Encoder(m, draft, zeros).run(); }

}  // namespace foretrace::whatif
