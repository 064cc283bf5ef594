#include <fmt/format.h>

#include <algorithm>

#include "base/decimal.hpp"
#include "base/text.hpp"
#include "cli/inputs.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/gpus.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::cli {
namespace {

// "H100-SXM5=2.49"
Result<std::pair<std::string, double>> parse_price(const std::string& text) {
  const std::vector<std::string_view> parts = split(text, '=');
  const std::optional<double> usd = parts.size() == 2 ? parse_double(parts[1]) : std::nullopt;
  if (!usd || parts[0].empty() || *usd < 0 || *usd > analysis::kHighestPrice) {
    return fail(ErrorCode::kUsage, fmt::format("--price takes NAME=USD per hour, not '{}'", text),
                "for example --price H100-SXM5=2.49,L4=0.80");
  }
  return std::pair{std::string(parts[0]), *usd};
}

Result<Answer> run_gpus(const Request& request) {
  const Values& values = request.values;
  analysis::GpusOptions options;
  options.threads = request.load.threads;
  FORETRACE_TRY(options.targets, entries_of(values, "to"));
  FORETRACE_TRY(const std::vector<std::string> files, entries_of(values, "device"));
  FORETRACE_TRY(const std::vector<std::string> prices, entries_of(values, "price"));
  for (const std::string& file : files) {
    FORETRACE_TRY(hardware::Device d, hardware::load_device(file));
    options.own.push_back(std::move(d));
  }
  for (const std::string& text : prices) {
    FORETRACE_TRY(const auto price, parse_price(text));
    options.prices.insert_or_assign(price.first, price.second);
  }
  FORETRACE_TRY(options.price_list, price_list(values));
  options.to_host = values.text("to-host").value_or("");
  options.watts = values.flag("watts");
  FORETRACE_TRY(const TracesAndChanges given, traces_and_changes(values));
  options.whatifs = given.whatifs;
  options.cpu = values.number("cpu");
  options.from = values.text("from");
  const std::string sort = values.text("sort").value_or("time");
  options.order = sort == "cost"    ? analysis::GpuOrder::kCost
                  : sort == "value" ? analysis::GpuOrder::kValue
                                    : analysis::GpuOrder::kTime;
  FORETRACE_TRY_VOID(analysis::check(options));
  FORETRACE_TRY(OpenBaseline open, open_baseline(request, given.traces));
  FORETRACE_TRY(const analysis::GpusReport report, analysis::compare_gpus(std::move(open.baseline), options));
  const bool answered = std::any_of(report.predictions.begin(), report.predictions.end(),
                                    [](const auto& g) { return g.prediction.declined.empty(); });
  return Answer{request.json ? report::to_json(report) : report::to_text(report, request.style),
                answered ? kDone : kDeclined};
}

}  // namespace

Verb gpus_verb() {
  using enum ValueType;
  return {
      .name = "gpus",
      .about = "the same step on other GPUs, with cost per step",
      .details =
          "Predicts every kernel and copy of the step on other GPUs, keeps the CPU as it is, and simulates the whole "
          "step "
          "there. `foretrace list devices` shows the GPUs; your own device files work the same way. Prices come from "
          "the "
          "device files, --prices or --price; without a price the cost is left blank. Further changes are stacked with "
          "the move.",
      .arguments = {{"TRACE", "a trace file, a folder with one file per rank, or - for standard input"},
                    {"WHATIF", "changes made together with the move", 0, Argument::kAny, {}, whatif_names()}},
      .options =
          {option(kText, "to", "A,B", "all that are known", "the GPUs to predict for").suggesting(device_names()),
           option(kText, "device", "FILE,…", "", "your own device files, predicted for too"),
           option(kText, "price", "NAME=USD,…", "the device file's", "what a GPU costs per hour"),
           option(kFile, "prices", "FILE", "", "a price list: device,usd_per_hour,provider,date"),
           flag("watts", "also show energy, from the boards' power"),
           option(kFile, "to-host", "FILE", "the trace's host", "the target's host, as `foretrace calibrate` wrote it"),
           option(kNumber, "cpu", "X", "1", "the target's host is X times as fast").at_least(0.001),
           option(kText, "sort", "KEY", "time", "order by time, cost per step or value")
               .one_of({"time", "cost", "value"}),
           option(kText, "from", "NAME", "what the trace says", "the GPU the trace was recorded on")
               .suggesting(device_names())},
      .examples = {{"foretrace gpus trace.json.gz", "every known GPU"},
                   {"foretrace gpus trace.json.gz --to A100-SXM4-80GB,H100-SXM5 --price H100-SXM5=2.49",
                    "two, one with a price"},
                   {"foretrace gpus trace.json.gz amp --to B200", "mixed precision on a B200"}},
      .shares = kPrediction,
      .run = run_gpus};
}

}  // namespace foretrace::cli
