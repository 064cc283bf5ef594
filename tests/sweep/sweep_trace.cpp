// sweep_trace TRACE…, sweep_trace --job TRACE…: loads each trace once, builds every step's graph and tries every what-if on the median
// step, alone and behind another. Prints what it is about to do, so that whoever sees it crash knows where, and one line per finding:
//
//   finding: TRACE: WHATIF: what is wrong
//
// Findings are what no input may cause: an unsound graph, a prediction without a length, a band that leaves it out, a reason
// that is none. `scripts/sweep` runs it over all traces and judges what it says. --no-stacks leaves out what-ifs behind others;
// --stacks-of N tries every Nth of them, others on every trace, so that many traces try them all between them. --job: the traces are
// the ranks of one job, asked together.
// --reasons: also, for every reason why a what-if declined, how often it was given and the first that gave it:
//
//   reason: TRACE: COUNT: WHATIF: why

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>

#include "foretrace/graph/graph.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"
#include "graph/soundness.hpp"
#include "plan/stack.hpp"
#include "sweep/uses.hpp"
#include "whatif/predict/predictor.hpp"

namespace {

using namespace foretrace;  // NOLINT(google-build-using-namespace): a program, not a header

constexpr std::size_t kMostSteps = 20;

struct Options {
  unsigned stacks_of = 1;  ///< every Nth stack; 0: none
  bool reasons = false;
};

/// The same on every machine, so that a sweep can be repeated (FNV-1a).
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return h;
}

class Sweep {
 public:
  Sweep(std::string path, const Options& options) : path_(std::move(path)), options_(options) {}

  int run() {
    doing("load");
    const auto trace = trace::load(path_);
    if (!trace) {
      fmt::print("unreadable: {}: {}\n", path_, trace.error().message);
      return 0;
    }
    graphs(*trace);
    doing("baseline");
    return ask(analysis::make_baseline(*trace, std::nullopt, std::nullopt));
  }

  int run_job(const std::vector<std::string>& files) {
    doing("load");
    const Result<ranks::Job> job = ranks::load_job(files);
    if (!job) {
      fmt::print("unreadable: {}: {}\n", path_, job.error().message);
      return 0;
    }
    doing("baseline");
    return ask(analysis::make_baseline(*job, std::nullopt, std::nullopt));
  }

 private:
  // Every what-if alone, and behind others.
  int ask(const Result<analysis::Baseline>& baseline) {
    if (!baseline) {
      if (baseline.error().code != ErrorCode::kDeclined) finding("baseline", baseline.error().message);
      fmt::print("declined: {}: {}\n", path_, baseline.error().message);
      return findings_;
    }
    reordered_ = graph::runs_out_of_order(baseline->model.graph);
    std::size_t answered = 0;
    const std::vector<std::string> all = sweep::every_use();
    for (const std::string& text : all) {
      doing(text);
      const report::WhatIfReport one{baseline->figures, {plan::predict(*baseline, {sweep::parsed(text)})}};
      answered += judge(one.predictions.front()) ? 1u : 0u;
      static_cast<void>(to_text(one, report::TextStyle{}));
      static_cast<void>(to_json(one));
    }
    std::size_t stacked = 0;
    for (const std::string& first : options_.stacks_of > 0 ? sweep::first_uses() : std::vector<std::string>()) {
      for (const std::string& second : all) {
        // The upper half: the lower bits of this hash know only the lower bits of the letters.
        const std::string stack = fmt::format("{} + {}", first, second);
        if ((hash(file_name().append(stack)) >> 32) % options_.stacks_of != 0) continue;
        doing(stack);
        judge(predict(baseline->model, {sweep::parsed(first), sweep::parsed(second)}, std::nullopt,
                      whatif::Detail::kStepOnly));
        ++stacked;
      }
    }
    if (options_.reasons) {
      for (const auto& [why, reason] : declined_)
        fmt::print("reason: {}: {}: {}: {}\n", path_, reason.count, reason.first, why);
    }
    fmt::print("swept: {}: {} of {} what-ifs answered, {} stacks\n", path_, answered, all.size(), stacked);
    return findings_;
  }

  [[nodiscard]] std::string file_name() const { return path_.substr(path_.rfind('/') + 1); }
  void doing(const std::string& what) {
    fmt::print(stderr, "at: {}: {}\n", path_, what);
    std::fflush(stderr);
  }
  void finding(const std::string& where, const std::string& what) {
    fmt::print("finding: {}: {}: {}\n", path_, where, what);
    ++findings_;
  }

  void graphs(const trace::Trace& trace) {
    const trace::Steps steps = trace::find_steps(trace);
    const graph::GraphBuilder builder(trace, steps);
    for (std::size_t s = 0; s < steps.steps.size() && s < kMostSteps; ++s) {
      doing(fmt::format("graph of step {}", s));
      const auto g = builder.build(s);
      if (!g && g.error().code != ErrorCode::kDeclined) finding(fmt::format("step {}", s), g.error().message);
      if (!g) continue;
      if (const Status sound = verify(*g); !sound) finding(fmt::format("step {}", s), sound.error().message);
    }
  }

  bool judge(const whatif::Prediction& p) {
    if (!p.declined.empty()) {
      Reason& reason = declined_[p.declined];
      if (reason.count++ == 0) reason.first = p.whatif;
      for (const char* never : {"not sound", "internal", "cycle"}) {
        if (p.declined.find(never) == std::string::npos) continue;
        finding(p.whatif, p.declined);
        break;
      }
      // A reason that speaks of the trace has to be true of it.
      if (!reordered_ && p.declined.find("in another order than that of its launches") != std::string::npos) {
        finding(p.whatif, "no stream of this trace runs its work in another order: " + p.declined);
      }
      return false;
    }
    if (p.step < 0 || !std::isfinite(p.speedup)) finding(p.whatif, fmt::format("a step of {} ns", p.step));
    if (p.high != 0 && (p.low > p.step || p.high < p.step)) {
      finding(p.whatif, fmt::format("{} ns is outside its band of {} to {} ns", p.step, p.low, p.high));
    }
    if (p.peak_bytes && *p.peak_bytes < 0) finding(p.whatif, fmt::format("a peak of {} bytes", *p.peak_bytes));
    return true;
  }

  std::string path_;
  Options options_;
  bool reordered_ = false;
  struct Reason {
    std::size_t count = 0;
    std::string first;
  };
  std::map<std::string, Reason> declined_;
  int findings_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  int findings = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--no-stacks") == 0) {
      options.stacks_of = 0;
    } else if (std::strcmp(argv[i], "--stacks-of") == 0 && i + 1 < argc) {
      options.stacks_of = static_cast<unsigned>(std::max(1, std::atoi(argv[++i])));
    } else if (std::strcmp(argv[i], "--reasons") == 0) {
      options.reasons = true;
    } else if (std::strcmp(argv[i], "--job") == 0 && i + 1 < argc) {
      const std::vector<std::string> files(argv + i + 1, argv + argc);
      return Sweep(files.front(), options).run_job(files) == 0 ? 0 : 1;
    } else {
      findings += Sweep(argv[i], options).run();
    }
  }
  return findings == 0 ? 0 : 1;
}
