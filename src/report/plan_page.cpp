// Plans as pictures: stages over time, memory of each GPU, and what the search found for each size of tensor and pipeline
// parallel.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/readable.hpp"
#include "foretrace/version.hpp"
#include "report/json_writer.hpp"
#include "report/page_html.hpp"
#include "report/plan.hpp"
#include "report/prediction_parts.hpp"

namespace foretrace::report {
namespace {

using plan::PlanPrediction;
using plan::PlanReport;

constexpr std::size_t kMostPlans = 20;  // in the table of the page

// All plans with one size of tensor and of pipeline parallel.
struct Cell {
  const PlanPrediction* best = nullptr;
  std::size_t tried = 0;
  std::map<std::string, std::size_t> declined;
};

std::map<std::pair<int, int>, Cell> cells_of(const PlanReport& r) {
  std::map<std::pair<int, int>, Cell> out;
  for (const PlanPrediction& p : r.plans) {
    Cell& cell = out[{p.plan.tp, p.plan.pp}];
    ++cell.tried;
    if (cell.best == nullptr) cell.best = &p;  // they come best first
  }
  for (const PlanPrediction& p : r.declined) {
    Cell& cell = out[{p.plan.tp, p.plan.pp}];
    ++cell.tried;
    ++cell.declined[p.declined];
  }
  return out;
}

// How fast a plan trains; where the trace does not show its samples, how fast it steps.
double rate(const PlanPrediction& p) { return p.samples_per_s.value_or(1e9 / static_cast<double>(p.step)); }

void write_cells(JsonWriter& json, const PlanReport& r) {
  json.objects("cells", cells_of(r), [&](const auto& entry) {
    const auto& [size, cell] = entry;
    json.member("tp", size.first).member("pp", size.second).member("tried", cell.tried);
    if (cell.best != nullptr) {
      json.member("plan", cell.best->text).member_ms("ms", cell.best->step).member("rate", rate(*cell.best));
      json.member("peak_bytes", cell.best->peak_bytes);
    } else {
      const auto most = std::max_element(cell.declined.begin(), cell.declined.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      json.member("declined", most->first);
    }
  });
}

std::size_t fastest(const PlanReport& r) {
  const auto slower = [](const PlanPrediction& a, const PlanPrediction& b) { return rate(a) < rate(b); };
  return static_cast<std::size_t>(std::max_element(r.plans.begin(), r.plans.end(), slower) - r.plans.begin());
}

std::string answer(const PlanReport& r) {
  if (r.plans.empty()) return fmt::format("None of {} plans is possible and fits.", r.tried);
  const PlanPrediction& p = r.plans[fastest(r)];
  std::string out = r.verb == "plan"     ? fmt::format("The best of {} plans for {} GPUs is ", r.tried, r.gpus)
                    : r.plans.size() > 1 ? fmt::format("The fastest of {} plans is ", r.plans.size())
                                         : std::string();
  out += fmt::format("{}: {} ms a step [{} to {}]", p.text.empty() ? "one GPU" : p.text, short_ms(p.step),
                     short_ms(p.low), short_ms(p.high));
  if (p.tokens_per_s) {
    out += fmt::format(", {} tokens per second", format_count(static_cast<std::uint64_t>(*p.tokens_per_s)));
  }
  return out + ".";
}

}  // namespace

std::string to_page(const PlanReport& r) {
  const bool search = r.verb == "plan";
  PlanReport shown = r;
  if (search) {
    // The first ones, and the one whose stages are drawn. Reasons of those that do not go are in the cells.
    std::size_t place = 0;
    std::erase_if(shown.plans, [&](const PlanPrediction& p) { return place++ >= kMostPlans && p.actions.empty(); });
    shown.declined.clear();
  }
  std::string out;
  JsonWriter json(out, 1);
  json.begin_object().member("schema", 1).member("version", version()).member("file", file_name(r.figures.file));
  json.member("answer", answer(r))
      .member("fit", r.plans.size())
      .member("best", fastest(r))
      .key("report")
      .raw(to_json(shown));
  if (search) write_cells(json, r);
  json.end_object();
  std::vector<DataFile> scripts;
  for (const char* const shared : {"10_base", "11_tables", "12_axes", "20_charts"}) {
    const std::string path = fmt::format("report/page/{}.js", shared);
    scripts.push_back(DataFiles::shipped().at(path));
  }
  for (const DataFile& own : data_files_in("report/plan_page", ".js")) scripts.push_back(own);
  return page_html(r.figures.file, out, scripts, data_files_in("report/plan_page", ".css"));
}

}  // namespace foretrace::report
