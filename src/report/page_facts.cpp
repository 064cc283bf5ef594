#include "report/page_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "foretrace/report/page.hpp"

namespace foretrace::report {
namespace {

constexpr std::size_t kMoments = 400;
constexpr std::size_t kOperations = 400;

std::string_view kind_name(memory::Kind kind) {
  switch (kind) {
    case memory::Kind::kResident:
      return "parameters and states";
    case memory::Kind::kGradient:
      return "gradients";
    case memory::Kind::kActivation:
      return "activations";
    case memory::Kind::kTemporary:
      return "temporaries";
    case memory::Kind::kInput:
      break;
  }
  return "the batch";
}

}  // namespace

void write_roofline(JsonWriter& json, const analysis::Baseline& baseline) {
  const whatif::Model& m = baseline.model;
  struct Point {
    double flops = 0, bytes = 0, ns = 0;
    std::size_t count = 0;
  };
  std::vector<double> time(m.works.size(), 0);
  for (std::size_t t = 0; t < m.graph.size(); ++t) {
    if (const std::uint32_t row = m.works.row_of(t); row != kNone) time[row] += static_cast<double>(m.graph.cost[t]);
  }
  std::map<std::array<std::string, 3>, Point> points;
  for (std::size_t row = 0; row < m.works.size(); ++row) {
    const work::Work& w = m.works[row];
    if (time[row] <= 0 || w.bytes() <= 0) continue;
    const std::string op = w.op_event != kNone ? std::string(m.trace->name(w.op_event)) : "";
    Point& p = points[{op, std::string(to_string(w.family)), std::string(to_string(w.dtype))}];
    p.flops += w.flops;
    p.bytes += w.bytes();
    p.ns += time[row];
    ++p.count;
  }
  std::vector<std::pair<std::array<std::string, 3>, Point>> order(points.begin(), points.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  if (order.size() > kOperations) order.resize(kOperations);
  const hardware::Device& d = m.device;
  json.key("roofline").begin_object().member("device", d.name).member("bandwidth_gbs", d.bandwidth_gbs);
  json.member("fp32_tflops", d.tflops_fp32).member("tf32_tflops", d.tflops_tf32).member("fp16_tflops", d.tflops_fp16);
  json.key("operations").begin_array();
  for (const auto& [key, p] : order) {
    json.begin_object().member("operation", key[0]).member("family", key[1]).member("dtype", key[2]);
    json.member("flops", p.flops)
        .member("bytes", p.bytes)
        .member("ms", p.ns / 1e6)
        .member("calls", p.count)
        .end_object();
  }
  json.end_array().end_object();
}

void write_memory(JsonWriter& json, const analysis::Baseline& baseline) {
  const std::optional<memory::Curve>& curve = baseline.model.memory;
  json.key("memory");
  if (!curve || curve->positions == 0) {
    json.null();
    return;
  }
  const std::size_t moments = std::min<std::size_t>(kMoments, curve->positions);
  std::vector<std::array<std::int64_t, memory::kKinds>> bytes(moments + 1);
  const auto moment = [&](std::uint32_t position) {
    return static_cast<std::size_t>(position) * (moments - 1) / std::max(1U, curve->positions);
  };
  for (const memory::Block& block : curve->blocks) {
    const std::size_t from = moment(std::min(block.allocated, curve->positions));
    const std::size_t until = block.freed == UINT32_MAX ? moments : moment(std::min(block.freed, curve->positions)) + 1;
    for (std::size_t at = from; at < std::min(until, moments); ++at)
      bytes[at][static_cast<std::size_t>(block.kind)] += block.bytes;
  }
  json.begin_object().member("peak_bytes", curve->peak_bytes).member("peak_at", moment(curve->peak_at));
  json.member("peak_operation", curve->peak_op).member("start_bytes", curve->start_bytes);
  json.member("backward_from", moment(curve->backward_from)).member("update_from", moment(curve->update_from));
  json.key("kinds").begin_array();
  for (std::size_t k = 0; k < memory::kKinds; ++k) {
    json.begin_object().member("kind", kind_name(static_cast<memory::Kind>(k))).member("at_peak", curve->at_peak[k]);
    json.key("bytes").begin_array();
    for (std::size_t at = 0; at < moments; ++at) json.value(bytes[at][k]);
    json.end_array().end_object();
  }
  json.end_array().end_object();
}

void write_sliders(JsonWriter& json, const analysis::Baseline& baseline) {
  struct Slider {
    const char *name, *whatif, *unit;
    std::vector<const char*> values;
  };
  const std::vector<Slider> sliders = {
      {"batch", "batch:x={}", "times the batch", {"0.25", "0.5", "0.75", "1", "1.5", "2", "3", "4", "8"}},
      {"CPU", "cpu:x={}", "times the CPU's speed", {"0.5", "0.75", "1", "1.25", "1.5", "2", "3", "4"}}};
  // Each value is a prediction: graphs too large to be searched get three.
  const bool large = baseline.model.graph.size() > kMostSearched;
  json.key("sliders").begin_array();
  for (const Slider& slider : sliders) {
    json.begin_object().member("name", slider.name).member("unit", slider.unit).key("values").begin_array();
    for (const char* value : slider.values) {
      const std::string_view v = value;
      if (large && v != "0.5" && v != "1" && v != "2") continue;
      if (v == "1") {
        json.begin_object().member("x", 1.0).member_ms("ms", baseline.figures.unprofiled);
        json.member_ms("low_ms", baseline.figures.unprofiled_low)
            .member_ms("high_ms", baseline.figures.unprofiled_high);
        json.member("peak_bytes", baseline.figures.peak_bytes).member("samples", 1.0).end_object();
        continue;
      }
      const Result<whatif::Use> use = whatif::parse_use(fmt::format(fmt::runtime(slider.whatif), value));
      FORETRACE_CHECK(use.has_value());
      const whatif::Prediction p =
          analysis::predict(baseline, {*use}, large ? whatif::Detail::kStepOnly : whatif::Detail::kFull);
      if (!p.declined.empty()) continue;
      json.begin_object().member("x", std::stod(value)).member_ms("ms", p.step);
      json.member_ms("low_ms", large ? p.step : p.low).member_ms("high_ms", large ? p.step : p.high);
      json.member("peak_bytes", p.peak_bytes).member("samples", p.samples).end_object();
    }
    json.end_array().end_object();
  }
  json.end_array();
}

}  // namespace foretrace::report
