#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "analysis/replayed_step.hpp"
#include "analysis/sliders.hpp"
#include "base/data_files.hpp"
#include "base/readable.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/version.hpp"
#include "foretrace/whatif/parallel.hpp"
#include "report/gpus.hpp"
#include "report/json_writer.hpp"
#include "report/page_facts.hpp"
#include "report/page_pack.hpp"
#include "report/prediction_parts.hpp"
#include "report/scale.hpp"
#include "whatif/model/evidence.hpp"

namespace foretrace::report {

using analysis::GpusReport;
using analysis::SummaryReport;

namespace {

// What a graph too large to be searched is asked: one change of each kind people try first.
constexpr const char* kCommon[] = {"amp:dtype=bf16", "fused-optimizer", "cuda-graph"};
const std::vector<int> kWorkers = {2, 4, 8, 16, 32, 64};

// Changes in a sentence: a list of forty layers is read in the table.
std::string in_short(const std::vector<whatif::Use>& uses) {
  constexpr std::size_t kRoom = 48;
  std::string out;
  for (const whatif::Use& use : uses) out += (out.empty() ? "" : " + ") + shorten_middle(use.text, kRoom);
  return out;
}

class PageMaker {
 public:
  PageMaker(const trace::Trace& trace, const PageOptions& options) : trace_(trace), options_(options) {}

  Result<Page> make() {
    for (const std::string& text : options_.whatifs) {
      FORETRACE_TRY(whatif::Use use, whatif::parse_use(text));
      asked_.push_back(std::move(use));
    }
    const trace::Steps steps = trace::find_steps(trace_);
    analysis::SummaryOptions about;
    about.step = options_.step;
    about.measured_ms = options_.told.measured_ms;
    about.host = options_.told.host;
    FORETRACE_TRY(const analysis::SummaryReport summary, analysis::summarise(trace_, steps, about));
    Result<analysis::Baseline> baseline = analysis::make_baseline(trace_, options_.step, options_.told);
    if (!baseline) {
      if (baseline.error().code != ErrorCode::kDeclined) return tl::unexpected(baseline.error());
      return without_predictions(summary, baseline.error().message);
    }
    base_ = &*baseline;
    predict();
    std::string json_text;
    JsonWriter json(json_text, 1);
    begin(json, summary);
    json.member("answer", answer(summary));
    write_predictions(json);
    write_elsewhere(json);
    write_track_record(json);
    write_assumptions(json);
    write_roofline(json, *base_);
    write_memory(json, *base_);
    json.end_object();
    FORETRACE_TRY(const std::string pack, pack_both());
    Page out{html(json_text, pack), answer(summary), base_->model.graph.size()};
    return out;
  }

 private:
  void begin(JsonWriter& json, const analysis::SummaryReport& summary) const {
    json.begin_object().member("schema", 1).member("version", version()).member("command", options_.command);
    json.member("file", trace_.path).key("summary").raw(to_json(summary));
    if (!options_.ranks_json.empty()) json.key("ranks").raw(options_.ranks_json);
    if (!options_.compare_json.empty()) json.key("compare").raw(options_.compare_json);
  }

  // A step nothing can be predicted of still has phases, layers and a timeline.
  Result<Page> without_predictions(const analysis::SummaryReport& summary, const std::string& why) {
    std::string json_text;
    JsonWriter json(json_text, 1);
    begin(json, summary);
    const std::string said = fmt::format("The step takes {} ms as traced; nothing can be predicted of it: {}.",
                                         short_ms(summary.step_duration()), why);
    json.member("answer", said).member("declined", why).end_object();
    std::string pack;
    FORETRACE_TRY(const analysis::StepGraphs graphs, analysis::StepGraphs::open(trace_, trace::find_steps(trace_)));
    std::size_t tasks = 0;
    if (Result<graph::Graph> graph = graphs.graph(graphs.median())) {
      const analysis::ReplayedStep measured = analysis::replay_step(std::move(*graph));
      tasks = measured.graph.size();
      FORETRACE_TRY(pack, pack_timelines(trace_, {{"as measured", &measured, true}}));
    }
    return Page{html(json_text, pack), said, tasks};
  }

  void predict() {
    if (base_->model.graph.size() <= kMostSearched) {
      advised_ = search::advise(*base_, {.threads = options_.threads});
    } else if (asked_.empty()) {
      for (const char* text : kCommon) alone_.push_back(analysis::predict(*base_, {*whatif::parse_use(text)}));
    }
    for (const whatif::Use& use : asked_) alone_.push_back(analysis::predict(*base_, {use}));
    if (!asked_.empty()) {
      stack_ = asked_;
    } else if (advised_ && advised_->together) {
      stack_ = advised_->together->uses;
    } else {
      const whatif::Prediction* best = nullptr;
      for (const whatif::Prediction& p : alone_) {
        if (p.declined.empty() && (best == nullptr || p.step < best->step)) best = &p;
      }
      if (best != nullptr) stack_ = {*whatif::parse_use(best->whatif)};
    }
    // Each change of the stack on top of those before it: the waterfall.
    for (std::size_t n = 1; n <= stack_.size(); ++n) {
      const bool last = n == stack_.size();
      whatif::Prediction p =
          analysis::predict(*base_, {stack_.begin(), stack_.begin() + static_cast<std::ptrdiff_t>(n)},
                            last ? whatif::Detail::kFull : whatif::Detail::kStepOnly);
      if (!p.declined.empty()) {
        // What comes before it is the answer, then, and has a band of its own.
        stack_.resize(n - 1);
        if (n > 1) best_ = analysis::predict(*base_, stack_);
        break;
      }
      falls_.emplace_back(stack_[n - 1].text, p.step);
      best_ = std::move(p);
    }
  }

  [[nodiscard]] Ns today() const { return base_->figures.measured.value_or(base_->figures.unprofiled); }

  [[nodiscard]] std::string answer(const analysis::SummaryReport& summary) const {
    std::string bound = summary.simulated ? summary.simulated->unprofiled_bottleneck : "";
    bound = bound.substr(0, bound.find(':'));
    std::string out =
        fmt::format("Today a step takes {} ms{}{}", short_ms(today()),
                    base_->figures.measured ? "" : " without the profiler", bound.empty() ? "" : ", " + bound);
    if (best_) {
      out += fmt::format("; {} {} ms [{} to {}] with {}",
                         asked_.empty() ? "the best found is" : "predicted:", short_ms(best_->step),
                         short_ms(best_->low), short_ms(best_->high), in_short(stack_));
    }
    return out + ".";
  }

  void write_predictions(JsonWriter& json) {
    // The same trace gives the same page: how long a change took to apply is nobody's business here.
    for (whatif::Prediction& p : alone_) {
      for (whatif::Prediction::Applied& one : p.applied) one.seconds = 0;
    }
    const WhatIfReport report{base_->figures, alone_, std::nullopt};
    json.key("whatif").raw(to_json(report));
    if (advised_) json.key("advise").raw(to_json(AdviseReport{base_->figures, std::move(*advised_)}));
    json.member_ms("today_ms", today()).key("waterfall").begin_array();
    for (const auto& [name, step] : falls_)
      json.begin_object().member("whatif", name).member_ms("ms", step).end_object();
    json.end_array();
    if (best_) {
      json.key("best").begin_object().member("whatif", best_->whatif).member_ms("ms", best_->step);
      json.member_ms("low_ms", best_->low).member_ms("high_ms", best_->high).member("peak_bytes", best_->peak_bytes);
      write_trust(json, *best_).end_object();
    }
  }

  // Other GPUs, more workers and what sliders move over; what cannot be said is left out.
  void write_elsewhere(JsonWriter& json) {
    const bool large = base_->model.graph.size() > kMostSearched;
    analysis::GpusOptions gpus;
    gpus.threads = options_.threads;
    gpus.price_list = options_.price_list;
    if (large) gpus.targets = {"A100-SXM4-80GB", "H100-SXM5"};
    analysis::Baseline copy = *base_;
    if (const Result<analysis::GpusReport> report = analysis::compare_gpus(std::move(copy), gpus))
      json.key("gpus").raw(to_json(*report));
    std::optional<analysis::ScaleReport> scale;
    const Result<whatif::Parallelism> how = whatif::make_parallelism({});
    const std::string fabric = options_.fabric.empty() ? whatif::usual_fabric(base_->model.device) : options_.fabric;
    const Result<whatif::Network> found = whatif::network_of({.fabric = fabric}, base_->model.device);
    if (how && found && base_->model.parameter_elements != 0) {
      scale = analysis::scale_report(*base_, *how, found->collectives, found->gpus_per_node,
                                     large ? std::vector<int>{8} : kWorkers);
      if (scale->predictions.empty()) scale.reset();
    }
    if (scale) json.key("scale").raw(to_json(*scale));
    write_sliders(json,
                  analysis::sliders(*base_, scale ? &*scale : nullptr,
                                    {.fabric = fabric, .few = large, .bands = !large, .threads = options_.threads}));
  }

  // How far predictions of each change were off where the change was really made.
  void write_track_record(JsonWriter& json) const {
    json.key("track_record").begin_object();
    for (const whatif::PastErrors& past : whatif::past_errors()) {
      json.key(past.whatif).begin_object().member("rows", past.rows);
      json.member("step_pct", past.step_pct).member("worst_step_pct", past.worst_step_pct);
      json.member("gpu_pct", past.gpu_pct).member("memory_pct", past.memory_pct).end_object();
    }
    json.end_object();
  }

  // What has to hold for each change that was predicted, as the catalogue says it.
  void write_assumptions(JsonWriter& json) const {
    json.key("assumes").begin_object();
    for (const whatif::WhatIf& one : whatif::catalogue()) {
      if (!one.assumes.empty()) json.member(one.name, one.assumes);
    }
    json.end_object();
  }

  Result<std::string> pack_both() {
    FORETRACE_TRY(const analysis::StepGraphs graphs, analysis::StepGraphs::open(trace_, trace::find_steps(trace_)));
    std::size_t index = graphs.median();
    if (options_.step) {
      FORETRACE_TRY(index, graphs.steps().by_number(*options_.step));
    }
    FORETRACE_TRY(graph::Graph graph, graphs.graph(index));
    const analysis::ReplayedStep measured = analysis::replay_step(std::move(graph));
    std::vector<PackedTimeline> both{{"as measured, profiler included", &measured, true}};
    std::optional<analysis::ReplayedStep> predicted;
    if (best_) {
      predicted = analysis::replay_step(std::move(best_->graph));
      both.push_back({"predicted with " + in_short(stack_), &*predicted, false});
    } else {
      predicted = analysis::replay_step(base_->model.graph);
      both.push_back({"without the profiler", &*predicted, false});
    }
    return pack_timelines(trace_, both);
  }

  // '<' would end the element the data stands in.
  static std::string inert(const std::string& json) {
    std::string out;
    out.reserve(json.size());
    for (const char c : json) {
      if (c == '<') {
        out += "\\u003c";
      } else {
        out += c;
      }
    }
    return out;
  }

  static std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : printable(text)) {
      switch (c) {
        case '<':
          out += "&lt;";
          break;
        case '>':
          out += "&gt;";
          break;
        case '&':
          out += "&amp;";
          break;
        case '"':
          out += "&quot;";
          break;
        default:
          out += c;
      }
    }
    return out;
  }

  [[nodiscard]] std::string html(const std::string& json, const std::string& pack) const {
    std::string css, js;
    for (const DataFile& file : data_files_in("report/page", ".css")) css += file.text;
    for (const DataFile& file : data_files_in("report/page", ".js")) js += file.text;
    std::string title = trace_.path.substr(trace_.path.find_last_of('/') + 1);
    std::string_view rest = data_files_in("report/page", ".html").front().text;
    std::string out;
    out.reserve(json.size() + pack.size() + css.size() + js.size() + rest.size());
    // {{name}} in the page stands for one of these.
    while (true) {
      const std::size_t at = rest.find("{{");
      out += rest.substr(0, at);
      if (at == std::string_view::npos) break;
      const std::size_t end = rest.find("}}", at);
      const std::string_view name = rest.substr(at + 2, end - at - 2);
      rest = rest.substr(end + 2);
      out += name == "title"  ? escaped(title)
             : name == "css"  ? css
             : name == "js"   ? js
             : name == "pack" ? pack
                              : inert(json);
    }
    return out;
  }

  const trace::Trace& trace_;
  const PageOptions& options_;
  const analysis::Baseline* base_ = nullptr;
  std::vector<whatif::Use> asked_, stack_;
  std::optional<search::Advised> advised_;
  std::vector<whatif::Prediction> alone_;
  std::vector<std::pair<std::string, Ns>> falls_;
  std::optional<whatif::Prediction> best_;
};

}  // namespace

Result<Page> make_page(const trace::Trace& trace, const PageOptions& options) {
  return PageMaker(trace, options).make();
}

}  // namespace foretrace::report
