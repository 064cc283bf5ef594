#include <fmt/format.h>

#include "base/decimal.hpp"
#include "base/text.hpp"
#include "cli/price_list.hpp"
#include "cli/told.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "report/gpus.hpp"

namespace foretrace::cli {
namespace {

// "H100-SXM5=2.49"
Result<std::pair<std::string, double>> parse_price(const std::string& text) {
  const std::vector<std::string_view> parts = split(text, '=');
  const std::optional<double> usd = parts.size() == 2 ? parse_double(parts[1]) : std::nullopt;
  constexpr double kMost = 1e6;
  if (!usd || parts[0].empty() || *usd < 0 || *usd > kMost) {
    return fail(ErrorCode::kUsage, fmt::format("--price takes NAME=USD per hour, not '{}'", text),
                "for example --price H100-SXM5=2.49,L4=0.80");
  }
  return std::pair{std::string(parts[0]), *usd};
}

Result<Answer> run_gpus(const Request& request) {
  analysis::GpusOptions options;
  options.threads = request.load.threads;
  FORETRACE_TRY(options.targets, entries_of(request.values, "to"));
  FORETRACE_TRY(const std::vector<std::string> files, entries_of(request.values, "device"));
  FORETRACE_TRY(const std::vector<std::string> prices, entries_of(request.values, "price"));
  for (const std::string& file : files) {
    FORETRACE_TRY(hardware::Device d, hardware::load_device(file));
    options.own.push_back(std::move(d));
  }
  for (const std::string& text : prices) {
    FORETRACE_TRY(const auto price, parse_price(text));
    options.prices.insert_or_assign(price.first, price.second);
  }
  if (const auto file = request.values.text("prices")) {
    FORETRACE_TRY(options.price_list, read_price_list(*file));
  }
  options.to_host = request.values.text("to-host").value_or("");
  options.watts = request.values.flag("watts");
  options.whatifs = request.values.argument("WHATIF");
  options.cpu = request.values.number("cpu");
  options.from = request.values.text("from");
  const std::string sort = request.values.text("sort").value_or("time");
  options.order = sort == "cost"    ? analysis::GpuOrder::kCost
                  : sort == "value" ? analysis::GpuOrder::kValue
                                    : analysis::GpuOrder::kTime;
  FORETRACE_TRY_VOID(analysis::check(options));
  FORETRACE_TRY(const host::UserMeasurements known, told(request.values));
  FORETRACE_TRY(const trace::Trace trace, load_one(request.values.argument("TRACE"), request));
  FORETRACE_TRY(analysis::Baseline baseline, analysis::make_baseline(trace, request.values.integer("step"), known));
  FORETRACE_TRY(const analysis::GpusReport report, analysis::compare_gpus(std::move(baseline), options));
  bool answered = false;
  for (const analysis::GpuPrediction& g : report.predictions) answered |= g.prediction.declined.empty();
  return Answer{request.json ? report::to_json(report) : report::to_text(report, request.style),
                answered ? kDone : kDeclined};
}

}  // namespace

const Verb& gpus_verb() {
  static const Verb kVerb{
      .name = "gpus",
      .about = "the same step on other GPUs, with cost per step",
      .details =
          "Carries every kernel and copy of the step over to other GPUs, keeps the CPU as it is, and simulates the "
          "whole step there. `foretrace list devices` shows the GPUs; a file of your own works the same way. Prices "
          "come from the device files or from --price; without one the cost stays open. Further changes are stacked "
          "with the move.",
      .arguments = {{"TRACE", "a trace file, or - for standard input", 1, 1},
                    {"WHATIF", "changes made together with the move", 0, Argument::kAny, {}, whatif_names()}},
      .options =
          {{"to", 0, ValueType::kText, "A,B", "all that are known", "the GPUs to predict for", {}, {}, device_names()},
           {"device", 0, ValueType::kText, "FILE,…", "", "device files of your own, predicted for too"},
           {"price", 0, ValueType::kText, "NAME=USD,…", "the device file's", "what a GPU costs per hour"},
           {"prices", 0, ValueType::kFile, "FILE", "", "a list of prices: device,usd_per_hour,provider,date"},
           {"watts", 0, ValueType::kFlag, "", "", "energy too, by the boards' power"},
           {"to-host", 0, ValueType::kFile, "FILE", "the trace's host",
            "the host there, as `foretrace calibrate` wrote it"},
           {"cpu", 0, ValueType::kNumber, "X", "1", "the host there is X times as fast", {}, 0.001},
           {"sort",
            0,
            ValueType::kText,
            "KEY",
            "time",
            "order by time, cost per step or value",
            {"time", "cost", "value"},
            {}},
           {"from",
            0,
            ValueType::kText,
            "NAME",
            "what the trace says",
            "the GPU the trace was recorded on",
            {},
            {},
            device_names()}},
      .examples = {{"foretrace gpus trace.json.gz", "every GPU there is"},
                   {"foretrace gpus trace.json.gz --to A100-SXM4-80GB,H100-SXM5 --price H100-SXM5=2.49",
                    "two, one with a price"},
                   {"foretrace gpus trace.json.gz amp --to B200", "mixed precision on a B200"}},
      .reads_traces = true,
      .picks_step = true,
      .calibrates = true,
      .takes_plugins = true,
      .run = run_gpus};
  return kVerb;
}

}  // namespace foretrace::cli
