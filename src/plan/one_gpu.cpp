#include "plan/one_gpu.hpp"

#include <fmt/format.h>

#include "whatif/predict/predictor.hpp"

namespace foretrace::plan {
namespace {

std::string quoted(const std::string& value) {
  return value.find_first_of(",:=|") == std::string::npos ? value : "'" + value + "'";
}

// A group of this many GPUs on the plan's network, as a what-if is told of it.
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

Result<std::vector<whatif::Use>> changes_of(const Shape& s, const Groups& groups,
                                            const whatif::NetworkChoice& network) {
  std::vector<std::string> texts;
  if (!s.gpu.empty()) texts.push_back("gpu:to=" + quoted(s.gpu));
  if (s.batch != 1) texts.push_back(fmt::format("batch:x={}", s.batch));
  if (s.recompute == "full") texts.emplace_back("checkpoint");
  if (s.recompute == "selective") texts.emplace_back("checkpoint:mode=selective");
  if (s.cp > 1) {
    texts.push_back(group("cp", s.cp, s.tp, groups, network) + (s.kind.empty() ? "" : ",kind=" + s.kind));
  }
  if (s.ep > 1) texts.push_back(group("ep", s.ep, s.tp, groups, network));
  if (s.tp > 1) {
    texts.push_back(group("tp", s.tp, 1, groups, network) + (s.sequence ? ",sequence=1" : "") +
                    (s.vocab ? "" : ",vocab=replicated"));
  }
  return analysis::parse_uses(texts);
}

OneGpu predict_one(const analysis::Baseline& baseline, const std::vector<whatif::Use>& changes) {
  OneGpu out;
  const Result<whatif::Model> model = whatif::apply_uses(baseline.model, changes);
  if (!model) {
    out.declined = model.error().message;
    return out;
  }
  Result<Parts> parts = parts_of(*model, baseline.model);
  if (!parts) {
    out.declined = parts.error().message;
    return out;
  }
  out.parts = *parts;
  out.device = model->device;
  out.prediction =
      whatif::Predictor(baseline.model, baseline.figures.measured).describe(*model, changes, whatif::Detail::kFull);
  return out;
}

}  // namespace foretrace::plan
