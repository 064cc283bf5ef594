#pragma once
// Measured steps of the repository, read once for all tests that ask for one, and predictions on them.

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/trace/load.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::test {

/// `path` from the root of the repository: "examples/resnet50-h200.json.gz".
inline const analysis::Baseline& step_at(const std::string& path) {
  struct Loaded {
    trace::Trace trace;
    std::optional<analysis::Baseline> baseline;
  };
  static std::map<std::string, std::unique_ptr<Loaded>> all;
  std::unique_ptr<Loaded>& found = all[path];
  if (!found) {
    found = std::make_unique<Loaded>();
    Result<trace::Trace> trace = trace::load(std::string(FORETRACE_SOURCE_DIR) + "/" + path);
    EXPECT_TRUE(trace) << trace.error().to_string();
    found->trace = std::move(*trace);
    Result<analysis::Baseline> baseline = analysis::make_baseline(found->trace, std::nullopt, std::nullopt);
    EXPECT_TRUE(baseline) << baseline.error().to_string();
    found->baseline = std::move(*baseline);
  }
  return *found->baseline;
}

/// `name` below data/: "h200-lengths/gpt2-today", or with its variant "h200-clean/gpt2.ckpt".
inline const analysis::Baseline& measured_step(const std::string& name) {
  const std::string variant = name.find('.') == std::string::npos ? ".base" : "";
  return step_at("data/" + name + variant + ".json.gz");
}

/// All of them together; none: the step as it is.
inline whatif::Prediction predicted(const whatif::Model& model, const std::vector<std::string>& uses) {
  std::vector<whatif::Use> parsed;
  for (const std::string& text : uses) {
    Result<whatif::Use> use = whatif::parse_use(text);
    EXPECT_TRUE(use) << use.error().to_string();
    parsed.push_back(std::move(*use));
  }
  return whatif::predict(model, parsed, std::nullopt);
}
inline whatif::Prediction predicted(const std::string& name, const std::vector<std::string>& uses) {
  return predicted(measured_step(name).model, uses);
}

}  // namespace foretrace::test
