#include "plan/one_gpu.hpp"

#include <fmt/format.h>

#include "whatif/predict/predictor.hpp"

namespace foretrace::plan {
namespace {

// Gradients are not summed by cp and ep, but once in a step by who puts the plan together.
constexpr const char* kNoReduction = ",reduce=0";

std::string quoted(const std::string& value) {
  return value.find_first_of(",:=|") == std::string::npos ? value : "'" + value + "'";
}

// Parameters of a what-if for a group of this many GPUs on the plan's network.
std::string group(std::string_view name, int size, std::int64_t apart, const Groups& groups,
                  const whatif::NetworkChoice& network) {
  std::string out = fmt::format("{}:size={}", name, size);
  if (!network.collectives.empty()) {
    out += ",collectives=" + quoted(network.collectives);
    if (!network.collectives_tag.empty()) out += ",collectives_tag=" + quoted(network.collectives_tag);
  } else {
    out += ",fabric=" + quoted(network.fabric);
  }
  const int members = groups.members_in_node(apart);
  if (size <= members || size % members == 0) out += fmt::format(",gpus_per_node={}", members);
  return out;
}

}  // namespace

Result<std::vector<whatif::Use>> changes_of(const Shape& s, const Groups& groups, const whatif::NetworkChoice& network,
                                            bool ep_reduces) {
  std::vector<std::string> texts;
  if (!s.gpu.empty()) texts.push_back("gpu:to=" + quoted(s.gpu));
  if (s.batch != 1) texts.push_back(fmt::format("batch:x={}", s.batch));
  if (s.recompute == "full") {
    texts.emplace_back("checkpoint");
  } else if (s.recompute == "selective" || s.recompute == "alternate") {
    texts.push_back("checkpoint:mode=" + s.recompute);
  } else if (!s.recompute.empty()) {
    texts.push_back("checkpoint:blocks=" + s.recompute);
  }
  if (s.cp > 1) {
    texts.push_back(group("cp", s.cp, s.cp_apart, groups, network) + (s.kind.empty() ? "" : ",kind=" + s.kind) +
                    kNoReduction);
  }
  if (s.ep > 1) {
    texts.push_back(group("ep", s.ep, s.cp_apart, groups, network) +
                    fmt::format(",imbalance={},capacity={}", s.imbalance, s.capacity) +
                    (ep_reduces ? "" : kNoReduction));
  }
  if (s.tp > 1) {
    texts.push_back(group("tp", s.tp, s.tp_apart, groups, network) + (s.sequence ? ",sequence=1" : "") +
                    (s.vocab ? "" : ",vocab=replicated") + (s.async ? ",async=1" : "") +
                    (s.divide_keys ? "" : ",kv=refused"));
  }
  return analysis::parse_uses(texts);
}

Result<Traced> Traced::make(const analysis::Baseline& baseline) {
  FORETRACE_TRY(const RepeatedBlock block, repeated_block(baseline.model));
  std::string text = fmt::format("layers:n={}", block.blocks + 1);
  if (!block.list.empty()) text += ",of=" + quoted(block.list);
  FORETRACE_TRY(whatif::Use one_more, whatif::parse_use(text));
  FORETRACE_TRY(whatif::Model deeper, whatif::apply_uses(baseline.model, {one_more}));
  return Traced(baseline, std::move(one_more), std::move(deeper));
}

OneGpu Traced::predict(const std::vector<whatif::Use>& changes) const {
  OneGpu out;
  const auto parts = [&]() -> Status {
    std::vector<whatif::Use> with_more = changes;
    with_more.push_back(one_more_);
    FORETRACE_TRY(const whatif::Model model, whatif::apply_uses(baseline_->model, changes));
    FORETRACE_TRY(const whatif::Model deeper, whatif::apply_uses(baseline_->model, with_more));
    FORETRACE_TRY(out.parts, parts_of({model, deeper}, {baseline_->model, deeper_}));
    out.pass_samples = model.pass_samples;
    out.device = model.device;
    out.prediction = whatif::Predictor(baseline_->model, baseline_->figures.measured)
                         .describe(model, changes, whatif::Detail::kFull);
    return {};
  };
  if (const Status done = parts(); !done) out.declined = done.error().message;
  return out;
}

}  // namespace foretrace::plan
