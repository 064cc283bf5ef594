#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/workers.hpp"
#include "foretrace/analysis/gpus.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "hardware/collective.hpp"

namespace foretrace::analysis {

namespace {

using whatif::Detail;
using whatif::Use;

// One place of one slider that has to be predicted.
struct Question {
  std::size_t slider;
  double x;
  std::vector<Use> uses;
  Detail detail;
};

SliderPoint point_of(double x, const whatif::Prediction& p, Detail detail) {
  SliderPoint out{x, p.step, {}, {}, p.peak_bytes, p.samples, {}};
  if (detail == Detail::kFull) {
    out.low = p.low;
    out.high = p.high;
  }
  if (p.communication > 0) out.exposed = p.exposed_communication;
  return out;
}

SliderPoint today(const StepFigures& f) {
  const Ns now = f.measured.value_or(f.unprofiled);
  if (f.measured) return {1, now, {}, {}, f.peak_bytes, 1, {}};
  return {1, now, f.unprofiled_low, f.unprofiled_high, f.peak_bytes, 1, {}};
}

class Asking {
 public:
  Asking(const Baseline& baseline, const SliderOptions& options) : baseline_(baseline), options_(options) {}

  // The what-if that changes this by a factor, at factors around one.
  void factor(const char* name, const char* unit, whatif::Changes changes, const std::vector<double>& factors) {
    const std::string& whatif = whatif::first_whatif_that_changes(changes).name;
    const std::size_t place = add({name, unit, 0, {}, {}});
    out_[place].points.push_back(today(baseline_.figures));
    for (const double x : factors) {
      Result<Use> use = whatif::parse_use(fmt::format("{}:x={}", whatif, x));
      FORETRACE_CHECK(use.has_value());
      questions_.push_back({place, x, {std::move(*use)}, options_.bands ? Detail::kFull : Detail::kStepOnly});
    }
  }

  void workers(const ScaleReport& scale) {
    Slider& slider = out_[add({"workers", "workers", 0, scale.network, {}})];
    slider.points.push_back(today(baseline_.figures));
    for (const whatif::Prediction& p : scale.predictions) {
      if (p.workers > 1) slider.points.push_back(point_of(p.workers, p, Detail::kFull));
    }
    for (SliderPoint& p : slider.points) p.samples = p.x;
  }

  void bandwidth(const ScaleReport& scale, const hardware::Fabric& fabric, const std::vector<double>& factors) {
    std::vector<std::string> links;
    for (const hardware::FabricLevel& level : fabric.levels)
      links.push_back(fmt::format("{} {:g} GB/s", level.name, level.gbs));
    for (const whatif::Prediction& known : scale.predictions) {
      if (known.workers < 2) continue;
      const std::size_t place =
          add({"bandwidth", "times the bandwidth", known.workers, fmt::format("{}", fmt::join(links, ", ")), {}});
      out_[place].points.push_back(point_of(1, known, Detail::kFull));
      for (const double x : factors) {
        auto model = std::make_shared<hardware::FabricCollectives>(faster(fabric, x));
        questions_.push_back({place,
                              x,
                              {whatif::parallel_use({}, std::move(model), known.workers, fabric.gpus_per_node)},
                              Detail::kStepOnly});
      }
    }
  }

  std::vector<Slider> answer() {
    std::vector<std::optional<SliderPoint>> found(questions_.size());
    for_each_index(questions_.size(), options_.threads, [&](std::size_t i) {
      const Question& q = questions_[i];
      const whatif::Prediction p = predict(baseline_, q.uses, q.detail);
      if (p.declined.empty()) found[i] = point_of(q.x, p, q.detail);
    });
    for (std::size_t i = 0; i < questions_.size(); ++i) {
      if (found[i]) out_[questions_[i].slider].points.push_back(*found[i]);
    }
    std::erase_if(out_, [](const Slider& s) { return s.points.size() < 2; });
    for (Slider& s : out_)
      std::sort(s.points.begin(), s.points.end(), [](const SliderPoint& a, const SliderPoint& b) { return a.x < b.x; });
    return std::move(out_);
  }

 private:
  std::size_t add(Slider slider) {
    out_.push_back(std::move(slider));
    return out_.size() - 1;
  }

  const Baseline& baseline_;
  const SliderOptions& options_;
  std::vector<Slider> out_;
  std::vector<Question> questions_;
};

}  // namespace

hardware::Fabric faster(hardware::Fabric fabric, double x) {
  for (hardware::FabricLevel& level : fabric.levels) level.gbs *= x;
  return fabric;
}

std::vector<Slider> sliders(const Baseline& baseline, const ScaleReport* scale, const SliderOptions& options) {
  Asking ask(baseline, options);
  using Factors = std::vector<double>;
  // Places of a slider that are shown.
  ask.factor("batch", "times the batch", whatif::Changes::kBatch,
             options.few ? Factors{0.5, 2} : Factors{0.25, 0.5, 0.75, 1.5, 2, 3, 4, 8});
  ask.factor("CPU", "times the CPU's speed", whatif::Changes::kHost,
             options.few ? Factors{0.5, 2} : Factors{0.5, 0.75, 1.25, 1.5, 2, 3, 4});
  // Shown as well.
  const Factors networks = options.few ? Factors{0.0625, 4} : Factors{0.015625, 0.0625, 0.25, 0.5, 2, 4};
  if (scale != nullptr && !scale->predictions.empty()) {
    ask.workers(*scale);
    const std::string fabric = options.fabric.empty() ? whatif::usual_fabric(baseline.model.device) : options.fabric;
    if (const Result<hardware::Fabric> found = hardware::fabric_from(fabric)) ask.bandwidth(*scale, *found, networks);
  } else {
    // A recorded job has its own network: there is none to choose.
    ask.factor("bandwidth", "times the bandwidth", whatif::Changes::kNetwork, networks);
  }
  return ask.answer();
}

}  // namespace foretrace::analysis
