#include "foretrace/analysis/gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/csv.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"
#include "base/workers.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "graph/gpu_work.hpp"
#include "hardware/figures.hpp"
#include "trace/gpu.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/model/bound.hpp"

namespace foretrace::analysis {

namespace {

using hardware::Device;
using whatif::Prediction;
using whatif::Use;

Result<Device> known_device(const std::string& name, const std::vector<Device>& own) {
  for (const Device& d : own) {
    if (d.name == name) return d;
  }
  return hardware::device_or_file(name);
}

Result<std::vector<Device>> targets_of(const GpusOptions& options) {
  std::vector<Device> targets = options.own;
  if (options.targets.empty() && options.own.empty()) {
    for (const Device& d : hardware::devices()) {
      if (!d.recognised_only) targets.push_back(d);
    }
    return targets;
  }
  for (const std::string& name : options.targets) {
    FORETRACE_TRY(Device d, known_device(name, options.own));
    const bool there = std::any_of(targets.begin(), targets.end(), [&](const Device& t) { return t.name == d.name; });
    if (!there) targets.push_back(std::move(d));
  }
  return targets;
}

Result<Use> cpu_use(double x) {
  return whatif::parse_use(fmt::format("{}:x={}", whatif::first_whatif_that_changes(whatif::Changes::kHost).name, x));
}

Use move_to(const Device& to, const std::string& host) {
  Use use;
  use.whatif = &whatif::first_whatif_that_changes(whatif::Changes::kDevice);
  use.parameters.set("to", to.file.empty() ? to.name : to.file, true);
  use.text = use.whatif->name + ":to=" + to.name;
  use.parameters.set("host", host, !host.empty());
  if (!host.empty()) use.text += ",host=" + host;
  return use;
}

// Changes first: their models were measured on the GPU of most traces, and the move carries a ratio. Where the trace's GPU
// cannot do them (bf16 on a V100) they come after it.
Prediction predict_on(const Baseline& b, const Device& to, const std::vector<Use>& changes,
                      const std::optional<Use>& cpu, const std::string& host) {
  const Use move = move_to(to, host);
  std::vector<Use> uses = changes;
  uses.push_back(move);
  if (cpu) uses.push_back(*cpu);
  Prediction p = predict(b, uses);
  if (p.declined.empty() || changes.empty()) return p;
  std::rotate(uses.begin(), uses.begin() + static_cast<std::ptrdiff_t>(changes.size()),
              uses.begin() + static_cast<std::ptrdiff_t>(changes.size()) + 1);
  Prediction other = predict(b, uses);
  return other.declined.empty() ? other : p;
}

using Prices = std::map<std::string, ListedPrice>;

void add_cost(GpuPrediction& g, const Prices& prices) {
  if (g.prediction.step <= 0) return;
  const double hours = static_cast<double>(g.prediction.step) / 3.6e12;     // ns in an hour, by definition
  if (g.device.power_w > 0) g.kwh_per_1k_steps = g.device.power_w * hours;  // W x h x 1000 steps / 1000
  if (const auto it = prices.find(g.device.name); it != prices.end()) {
    g.usd_per_hour = it->second.usd_per_hour;
    g.price_source = it->second.source;
  } else if (g.device.usd_per_hour > 0) {
    g.usd_per_hour = g.device.usd_per_hour;
    g.price_source = g.device.price_source;
  }
  if (!g.usd_per_hour) return;
  g.usd_per_1k_steps = *g.usd_per_hour * hours * 1e3;
  if (*g.usd_per_hour > 0) g.steps_per_usd = 1 / (*g.usd_per_hour * hours);
}

// A column of its own says it here.
void add_bound(GpuPrediction& g) {
  if (g.prediction.step <= 0) return;
  g.gpu_share = whatif::gpu_share(g.prediction.gpu_time, g.prediction.step);
  g.cpu_bound = whatif::waits_for_cpu(g.gpu_share);
  std::erase_if(g.prediction.not_modelled, [](const std::string& n) { return n.starts_with(whatif::kBoundByCpu); });
}

// Smaller comes first. Cost per step and throughput per dollar order alike; what has no price follows by time.
double key_of(const GpuPrediction& g, GpuOrder order) {
  if (order == GpuOrder::kTime) return static_cast<double>(g.prediction.step);
  return g.usd_per_1k_steps.value_or(std::numeric_limits<double>::infinity());
}

int class_of(const GpuPrediction& g) { return !g.prediction.declined.empty() ? 2 : g.fits == false ? 1 : 0; }

Result<Prices> prices_of(const GpusOptions& options) {
  Prices prices;
  for (const ListedPrice& p : options.price_list) {
    FORETRACE_TRY(const Device d, known_device(p.device, options.own));
    prices[d.name] = p;
  }
  for (const auto& [name, usd] : options.prices) {
    FORETRACE_TRY(const Device d, known_device(name, options.own));
    prices[d.name] = {d.name, usd, {}};
  }
  return prices;
}

// "2026-11" and "2026-11-09": months since the year 0.
std::optional<int> month_of(std::string_view text) {
  if (text.size() < 7 || text[4] != '-') return std::nullopt;
  const std::optional<double> year = parse_double(text.substr(0, 4));
  const std::optional<double> month = parse_double(text.substr(5, 2));
  if (!year || !month || *month < 1 || *month > 12) return std::nullopt;
  return static_cast<int>(*year) * 12 + static_cast<int>(*month) - 1;
}

// Against the newest price there is, not against today: the same input gives the same answer.
void say_age(std::vector<GpuPrediction>& predictions) {
  std::optional<int> newest;
  for (const hardware::Device& d : hardware::devices()) {
    if (const auto month = month_of(d.price_source); month && (!newest || *month > *newest)) newest = month;
  }
  for (const GpuPrediction& g : predictions) {
    if (const auto month = month_of(g.price_source); month && (!newest || *month > *newest)) newest = month;
  }
  for (GpuPrediction& g : predictions) {
    const std::optional<int> month = month_of(g.price_source);
    if (!month || !newest || *newest - *month < 12) continue;
    const int years = (*newest - *month) / 12;
    g.price_age = fmt::format("{} {} older than the newest price known", years, years == 1 ? "year" : "years");
  }
}

Status find_origin(Baseline& b, GpusReport& r, const GpusOptions& options) {
  const trace::Trace& trace = *b.model.trace;
  if (options.from) {
    FORETRACE_TRY(const hardware::Device given, known_device(*options.from, options.own));
    whatif::set_device(b.model, given);
    r.how = "as given";
    r.from = b.model.device.full_name;
    return {};
  }
  FORETRACE_TRY(hardware::DeviceMatch match, hardware::device_of(trace, options.own));
  whatif::set_device(b.model, match.device);
  r.how = match.how;
  const trace::DeviceProperties* own = trace::main_properties(trace);
  r.from = own == nullptr || own->name.empty() ? match.device.full_name : own->name;
  return {};
}

}  // namespace

Result<std::vector<ListedPrice>> read_prices(std::string_view csv, const std::string& origin) {
  const std::string hint = "a price list has the columns device,usd_per_hour,provider,date";
  std::vector<ListedPrice> prices;
  CsvReader row(csv);
  const auto wrong = [&](std::string_view what) { return row.error(what, origin, hint); };
  if (row.columns().empty()) {
    return tl::unexpected<Error>(
        Error{ErrorCode::kUnreadable, "the price list is empty", origin, Error::kNoOffset, hint});
  }
  if (row.columns() != std::vector<std::string_view>{"device", "usd_per_hour", "provider", "date"}) {
    return wrong("not the header of a price list");
  }
  while (row.next()) {
    if (row.cells().size() != 4) return wrong(fmt::format("{} cells instead of 4", row.cells().size()));
    const std::optional<double> usd = row.number("usd_per_hour");
    if (!usd || !(*usd >= 0) || *usd > kHighestPrice) return wrong("the price is not a number of dollars");
    if (row["provider"].empty()) return wrong("a price needs a provider");
    if (!month_of(row["date"])) return wrong("a price needs a date, 2026-11-09");
    prices.push_back({std::string(row["device"]), *usd, fmt::format("{}, {}", row["date"], row["provider"])});
  }
  return prices;
}

Status check(const GpusOptions& options) {
  FORETRACE_TRY_VOID(targets_of(options));
  FORETRACE_TRY_VOID(parse_uses(options.whatifs));
  FORETRACE_TRY_VOID(prices_of(options));
  if (options.from) {
    FORETRACE_TRY_VOID(known_device(*options.from, options.own));
  }
  if (!options.to_host.empty()) {
    FORETRACE_TRY_VOID(host::HostCosts::read(options.to_host));
  }
  return {};
}

Result<GpusReport> compare_gpus(Baseline b, const GpusOptions& options) {
  FORETRACE_TRY(const std::vector<Device> targets, targets_of(options));
  FORETRACE_TRY(const std::vector<Use> changes, parse_uses(options.whatifs));
  FORETRACE_TRY(const auto prices, prices_of(options));
  std::optional<Use> cpu;
  if (options.cpu) {
    FORETRACE_TRY(cpu, cpu_use(*options.cpu));
  }
  GpusReport r;
  // On a trace without GPU work it does not matter which GPU that was.
  const bool on_gpu = graph::has_gpu_work(b.model.graph);
  if (Status found = find_origin(b, r, options); !found) {
    if (on_gpu) return forward(found);
    return tl::unexpected(Error{ErrorCode::kDeclined, std::string(graph::kNoGpuWork), b.figures.file, Error::kNoOffset,
                                "`foretrace doctor` says what the trace holds"});
  }
  r.file = b.figures.file;
  r.step_name = b.figures.step_name;
  r.from_device = b.model.device.name;
  r.baseline = b.figures.measured.value_or(b.figures.unprofiled);
  r.one_rank = b.figures.one_rank;
  r.job = b.figures.job;
  r.steadiness = b.figures.steadiness;
  r.whatifs = options.whatifs;
  r.order = options.order;
  r.watts = options.watts;
  r.predictions.resize(targets.size());
  for_each_index(targets.size(), options.threads, [&](std::size_t i) {
    const Device& to = targets[i];
    GpuPrediction& g = r.predictions[i];
    g.device = to;
    g.is_origin = to.name == b.model.device.name && to.sm_count == b.model.device.sm_count;  // not a part of one
    g.prediction = predict_on(b, to, changes, cpu, options.to_host);
    if (g.prediction.declined.empty()) {
      add_cost(g, prices);
      add_bound(g);
      g.fits = g.prediction.fits;
    }
    g.prediction.graph = {};  // not read later, and one for each of thirty devices takes much memory
  });
  say_age(r.predictions);
  std::stable_sort(r.predictions.begin(), r.predictions.end(), [&](const GpuPrediction& a, const GpuPrediction& c) {
    if (class_of(a) != class_of(c)) return class_of(a) < class_of(c);
    const double ka = key_of(a, r.order);
    const double kc = key_of(c, r.order);
    return ka != kc ? ka < kc : a.prediction.step < c.prediction.step;
  });
  return r;
}

}  // namespace foretrace::analysis
