// Judges a prediction by the measured step, and derives the residuals by which bands can be fitted to the user's own models.

#include "compare/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "foretrace/analysis/baseline.hpp"

namespace foretrace::compare {
namespace {

// As tools/fit_bands.py has it: a family says something about itself when it holds this part of the GPU's time, and the CPU
// decides a step that follows it to this part.
constexpr double kLeastShare = 0.03, kCpuBound = 0.5;

struct Times {
  double measured = 0, scaled = 0, modelled = 0;
};

std::map<std::string, Times> by_errors(const std::vector<whatif::FamilyTime>& families) {
  std::map<std::string, Times> out;
  for (const whatif::FamilyTime& f : families) {
    Times& t = out[std::string(f.errors)];
    t.measured += to_ms(f.time[0]);
    t.scaled += to_ms(f.time[1]);
    t.modelled += to_ms(f.time[2] + f.time[3]);
  }
  return out;
}

std::string stem(std::string path) {
  path = path.substr(path.find_last_of('/') + 1);
  return path.substr(0, path.find(".json"));
}

double sign_error(double predicted, double measured) { return 100 * (predicted - measured) / measured; }

std::vector<whatif::Residuals::Row> residuals_of(const whatif::Prediction& p, const analysis::Baseline& after, Ns step,
                                                 bool clean, const std::string& model) {
  std::vector<whatif::Residuals::Row> out;
  const std::map<std::string, Times> predicted = by_errors(p.gpu_families);
  const std::map<std::string, Times> measured = by_errors(after.figures.gpu_families);
  double whole = 0, explained = 0;
  for (const auto& [family, t] : predicted) whole += t.measured + t.scaled + t.modelled;
  // How much the step follows each family, read off the band.
  std::map<std::string, double> pull;
  for (const whatif::BandPart& part : p.band) {
    if (part.sigma > 0 && p.step > 0) {
      pull[part.family] = static_cast<double>(part.up + part.down) / (2 * part.sigma * static_cast<double>(p.step));
    }
  }
  for (const auto& [family, t] : predicted) {
    const auto at = measured.find(family);
    if (t.modelled < kLeastShare * whole || at == measured.end()) continue;
    const double real = at->second.measured + at->second.scaled + at->second.modelled - t.measured;
    if (real <= 0 || t.modelled + t.scaled <= 0) continue;
    const double off = std::log(real / (t.modelled + t.scaled));
    explained += pull[family] * off;
    out.push_back({family, model, off});
  }
  // Of a traced step the CPU's part is the profiler's too.
  const double host = pull[std::string(whatif::kHostFamily)];
  if (clean && host >= kCpuBound) {
    const double off = std::log(static_cast<double>(step) / static_cast<double>(p.step));
    out.push_back({std::string(whatif::kHostFamily), model, (off - explained) / host});
  }
  return out;
}

}  // namespace

Result<Verdict> check_prediction(const trace::Trace& before, const trace::Trace& after, const Comparison& sides,
                                 const Options& options) {
  FORETRACE_TRY(analysis::Baseline base,
                analysis::make_baseline(before, options.step, host::UserMeasurements(options.before_ms, options.host)));
  base.model.residuals = options.residuals;
  FORETRACE_TRY(const analysis::Baseline real,
                analysis::make_baseline(after, options.step, host::UserMeasurements(options.after_ms, options.host)));
  Verdict out;
  out.device = base.model.device.name;
  out.prediction = analysis::predict(base, options.whatif);
  const bool clean = sides.after.clean.has_value();
  out.step = clean ? *sides.after.clean : real.figures.unprofiled;
  if (!out.prediction.declined.empty()) return out;
  const whatif::Prediction& p = out.prediction;
  if (out.step > 0) out.step_error_pct = sign_error(static_cast<double>(p.step), static_cast<double>(out.step));
  out.inside_band = p.low <= out.step && out.step <= p.high;
  if (sides.after.gpu_time > 0) {
    out.gpu_error_pct = sign_error(static_cast<double>(p.gpu_time), static_cast<double>(sides.after.gpu_time));
  }
  if (p.peak_bytes && sides.after.peak_bytes && *sides.after.peak_bytes > 0) {
    out.memory_error_pct = sign_error(static_cast<double>(*p.peak_bytes), static_cast<double>(*sides.after.peak_bytes));
  }
  std::map<std::string, Verdict::Family> families;
  for (const whatif::FamilyTime& f : p.gpu_families) families[std::string(f.family)].predicted += f.total();
  for (const whatif::FamilyTime& f : real.figures.gpu_families) families[std::string(f.family)].measured += f.total();
  for (auto& [name, family] : families) {
    family.name = name;
    out.families.push_back(family);
  }
  std::stable_sort(out.families.begin(), out.families.end(), [](const Verdict::Family& a, const Verdict::Family& b) {
    return std::max(a.predicted, a.measured) > std::max(b.predicted, b.measured);
  });
  out.residuals = residuals_of(p, real, out.step, clean, options.model.empty() ? stem(before.path) : options.model);
  return out;
}

}  // namespace foretrace::compare
