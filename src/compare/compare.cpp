// Puts a comparison together: which figure of the step decides, the causes, the tables, and the verdict on a prediction.

#include "foretrace/compare/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compare/judge.hpp"
#include "compare/noise.hpp"
#include "compare/parts.hpp"
#include "compare/profile.hpp"
#include "compare/recordings.hpp"
#include "compare/step_parts.hpp"
#include "compare/verdict.hpp"

namespace foretrace::compare {
namespace {

// A peak that moved by less is the allocator's rounding.
constexpr double kLeastMemory = 0.01;

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Standard error of the median of some steps, from their median deviation.
double median_error(const std::vector<double>& values) {
  if (values.size() < 3) return 0;
  const double centre = middle(values);
  std::vector<double> off;
  for (const double v : values) off.push_back(std::abs(v / centre - 1));
  return 1.25 * 1.48 * middle(off) / std::sqrt(static_cast<double>(values.size()));
}

struct Figures {
  std::vector<double> steps;  // one per recording, ns
  Sigma alone, prior;         // noise of one recording: by itself, and of several made together
};

// `host`: how much CPU time varies between such recordings; `steps_error`: how well the steps of one tell its figure.
Sigma noise_of(const graph::Graph& graph, const Sigma& host, double steps_error) {
  const Noise& noise = Noise::table();
  // A step that hides some of its CPU time follows a large change more than a small one: asked with a large one.
  const double large = noise.host_sessions.value;
  const double cpu = follows_host(graph, large) / large * host.value;
  return {std::hypot(std::hypot(cpu, noise.gpu.value), steps_error),
          cpu > noise.gpu.value ? host.programs : noise.gpu.programs};
}

bool is_timed(DecidedBy decided) { return decided == DecidedBy::kUser || decided == DecidedBy::kRecorded; }

Figures figures_of(const std::vector<Profile>& recordings, DecidedBy decided) {
  const Noise& noise = Noise::table();
  Figures out;
  double steps_error = 0;
  for (const Profile& p : recordings) {
    const bool traced = decided == DecidedBy::kTraced;
    out.steps.push_back(traced                             ? middle(p.traced_ns)
                        : decided == DecidedBy::kEstimated ? static_cast<double>(*p.estimated)
                                                           : static_cast<double>(*p.clean));
    steps_error = std::max(steps_error, median_error(traced ? p.traced_ns : p.clean_ns));
  }
  const Profile& shown = recordings.front();
  const graph::Graph& graph = decided == DecidedBy::kTraced ? *shown.traced_graph : shown.graph();
  out.alone = noise_of(graph, is_timed(decided) ? noise.host_clean : noise.host_sessions, steps_error);
  out.prior = is_timed(decided) ? out.alone : noise_of(graph, noise.host_traced, steps_error);
  return out;
}

Sigma larger(const Sigma& a, const Sigma& b) { return a.value > b.value ? a : b; }

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

Side side_of(const std::vector<Profile>& recordings, const Profile& whole, const Figures& figures) {
  Side out;
  std::vector<double> traced, clean;
  for (const Profile& p : recordings) {
    out.files.push_back(p.file);
    out.steps.push_back(p.step_name);
    traced.push_back(middle(p.traced_ns));
    if (p.clean) clean.push_back(static_cast<double>(*p.clean));
  }
  out.device = whole.device;
  out.rank = whole.rank;
  out.step = std::llround(mean(figures.steps));
  out.traced = std::llround(mean(traced));
  if (clean.size() == recordings.size()) out.clean = std::llround(mean(clean));
  out.gpu_time = std::llround(whole.gpu_ns);
  out.cpu_time = std::llround(whole.cpu_ns);
  out.peak_bytes = whole.peak_bytes;
  out.launches = static_cast<std::uint64_t>(std::llround(whole.launches));
  out.syncs = whole.syncs;
  out.bottleneck = recordings.front().bottleneck;
  return out;
}

template <class Has>
bool all(const std::vector<Profile>& recordings, Has has) {
  return std::all_of(recordings.begin(), recordings.end(), has);
}

void decide(Comparison& c, const std::vector<Profile>& before, const std::vector<Profile>& after) {
  const auto clean = [](const Profile& p) { return p.clean.has_value(); };
  const auto estimated = [](const Profile& p) { return p.estimated.has_value(); };
  const bool left = all(before, clean), right = all(after, clean);
  if (left && right) {
    c.decided =
        before.front().measured_by_user || after.front().measured_by_user ? DecidedBy::kUser : DecidedBy::kRecorded;
    return;
  }
  c.decided = all(before, estimated) && all(after, estimated) ? DecidedBy::kEstimated : DecidedBy::kTraced;
  if (left != right) {
    c.decided_why = fmt::format("only {} has a figure of the step without the profiler", left ? "BEFORE" : "AFTER");
  }
}

void memory_cause(Comparison& c) {
  if (!c.before.peak_bytes || !c.after.peak_bytes || *c.before.peak_bytes <= 0) return;
  const auto before = static_cast<double>(*c.before.peak_bytes), after = static_cast<double>(*c.after.peak_bytes);
  if (std::abs(after / before - 1) < kLeastMemory) return;
  c.causes.push_back({CauseKind::kMemory,
                      fmt::format("peak memory {:.2f} GB instead of {:.2f} ({:+.1f} %)", after / 1e9, before / 1e9,
                                  100 * (after / before - 1)),
                      "", 0, "", 0});
}

}  // namespace

std::string_view to_string(DecidedBy decided) {
  constexpr std::string_view kNames[] = {"told", "recorded", "traced", "estimated"};
  return kNames[static_cast<std::size_t>(decided)];
}

std::string_view to_string(Outcome outcome) {
  constexpr std::string_view kNames[] = {"passed", "failed", "inconclusive"};
  return kNames[static_cast<std::size_t>(outcome)];
}

std::string_view to_string(CauseKind kind) {
  constexpr std::string_view kNames[] = {"setup", "kernels", "work", "cpu", "waits", "memory", "recording"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

// Where only the GPU differs, the move is checked against its prediction without being asked. Nothing where more differs or the move
// cannot be predicted.
std::optional<Verdict> move_to_the_other_gpu(const trace::Trace& before, const trace::Trace& after, const Comparison& c,
                                             const Options& options) {
  std::size_t setups = 0;
  for (const Cause& cause : c.causes) setups += cause.kind == CauseKind::kSetup ? 1 : 0;
  if (setups != 1 || c.before.device == c.after.device || c.before.device.empty() || c.after.device.empty()) return {};
  Result<whatif::Use> move = whatif::parse_use(
      fmt::format("{}:to={}", whatif::first_whatif_that_changes(whatif::Changes::kDevice).name, c.after.device));
  if (!move) return {};
  Options asked = options;
  asked.whatif = {std::move(*move)};
  Result<Verdict> found = check_prediction(before, after, c, asked);
  if (!found || !found->prediction.declined.empty()) return {};
  return std::move(*found);
}

}  // namespace

namespace {

// Parts are times as traced: they say nothing where the two sides were not recorded alike, and what the user measured stands.
void judge_gate(Comparison& c, const std::vector<Profile>& before, const std::vector<Profile>& after,
                const Estimate& step, bool copies) {
  StepParts parts = step_parts(before, after, copies);
  c.parts = std::move(parts.parts);
  c.from_parts = to_change(parts.step);
  if (!c.gate_pct) return;
  const bool recorded_alike = std::none_of(c.causes.begin(), c.causes.end(),
                                           [](const Cause& cause) { return cause.kind == CauseKind::kRecording; });
  Evidence evidence{step, {}, {}, before.size(), after.size()};
  if (!c.parts.empty() && recorded_alike && c.decided != DecidedBy::kUser) {
    evidence.parts = parts.step;
    evidence.certain_parts = parts.certain;
  }
  const Judgement found = judge(evidence, *c.gate_pct);
  c.outcome = found.outcome;
  c.decided_by_parts = found.by_parts;
  c.decisive = to_change(found.decisive);
  c.recordings_needed = found.recordings_needed;
}

}  // namespace

Result<std::vector<Profile>> read(const std::vector<const trace::Trace*>& traces, const Options& options,
                                  std::optional<double> measured_ms) {
  std::vector<Profile> out;
  for (const trace::Trace* trace : traces) {
    Result<Profile> one = profile(*trace, options.step, host::UserMeasurements(measured_ms, options.host));
    if (!one) {
      if (one.error().file.empty()) one.error().file = trace->path;
      return tl::unexpected(one.error());
    }
    out.push_back(std::move(*one));
  }
  return out;
}

Sigma step_noise(const graph::Graph& graph, DecidedBy decided) {
  const Noise& noise = Noise::table();
  return noise_of(graph, is_timed(decided) ? noise.host_clean : noise.host_sessions, 0);
}

Comparison compare_recordings(const std::vector<Profile>& left, const std::vector<Profile>& right,
                              const Options& options) {
  Comparison c;
  c.gate_pct = options.gate_pct;
  decide(c, left, right);
  const Profile a = average(left), b = average(right);
  const Figures from = figures_of(left, c.decided), to = figures_of(right, c.decided);
  c.before = side_of(left, a, from);
  c.after = side_of(right, b, to);
  const bool copies = are_copies(a, b);
  Estimate step = estimate(from.steps, to.steps, larger(from.alone, to.alone), larger(from.prior, to.prior));
  if (copies) step.error = 0;
  const Change change = to_change(step);
  c.change_pct = change.pct;
  c.noise_pct = change.noise_pct;
  c.low_pct = change.low_pct;
  c.high_pct = change.high_pct;
  c.p_value = change.p_value;
  if (copies) {
    c.noise_from = "none, one side is a copy of the other";
  } else if (step.own) {
    c.noise_from = fmt::format("the spread of these {} recordings", left.size() + right.size());
  } else {
    c.noise_from =
        "the spread of recordings of unchanged programs; several recordings per side would measure it for this "
        "program";
  }
  c.causes = differences(a, b);
  const bool explained =
      std::any_of(c.causes.begin(), c.causes.end(), [](const Cause& x) { return x.kind == CauseKind::kSetup; });
  for (Cause& cause : moved_parts(left, right, explained)) c.causes.push_back(std::move(cause));
  memory_cause(c);
  judge_gate(c, left, right, step, copies);
  c.tables = tables_of(a, b);
  c.matched_share = matched_share(a, b);
  return c;
}

Result<Comparison> compare(const std::vector<const trace::Trace*>& before,
                           const std::vector<const trace::Trace*>& after, const Options& options) {
  FORETRACE_TRY(const std::vector<Profile> left, read(before, options, options.before_ms));
  FORETRACE_TRY(const std::vector<Profile> right, read(after, options, options.after_ms));
  Comparison c = compare_recordings(left, right, options);
  if (!options.whatif.empty()) {
    FORETRACE_TRY(c.verdict, check_prediction(*before.front(), *after.front(), c, options));
  } else {
    c.verdict = move_to_the_other_gpu(*before.front(), *after.front(), c, options);
  }
  return c;
}

}  // namespace foretrace::compare
