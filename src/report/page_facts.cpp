#include "report/page_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "base/saturate.hpp"

namespace foretrace::report {
namespace {

constexpr std::size_t kMoments = 400;
constexpr std::size_t kOperations = 400;
constexpr std::size_t kHolders = 200;

std::string_view kind_name(memory::Kind kind) {
  return kind == memory::Kind::kResident     ? "parameters and states"
         : kind == memory::Kind::kGradient   ? "gradients"
         : kind == memory::Kind::kActivation ? "activations"
         : kind == memory::Kind::kTemporary  ? "temporaries"
                                             : "the batch";
}

// What is alive at the peak, by the layer and the operation that allocated it: the largest first, the rest as one.
void write_holders(JsonWriter& json, const trace::Trace& trace, const memory::Curve& curve) {
  struct Held {
    std::int64_t bytes = 0;
    std::size_t blocks = 0;
  };
  std::map<std::array<std::string, 3>, Held> held;
  const auto name = [&](std::uint32_t event) {
    return event == kNone ? std::string() : std::string(trace.name(event));
  };
  for (const memory::Block& block : curve.blocks) {
    if (block.allocated > curve.peak_at || (block.freed != UINT32_MAX && block.freed <= curve.peak_at)) continue;
    std::string layer = name(block.layer);
    constexpr std::string_view kLayer = "layer:";
    if (layer.starts_with(kLayer)) layer = layer.substr(kLayer.size(), layer.find('|') - kLayer.size());
    Held& h = held[{std::string(kind_name(block.kind)), std::move(layer), name(block.op)}];
    h.bytes = saturated_sum(h.bytes, block.bytes);
    ++h.blocks;
  }
  std::vector<std::pair<std::array<std::string, 3>, Held>> order(held.begin(), held.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  Held rest;
  for (std::size_t i = kHolders; i < order.size(); ++i) {
    rest.bytes = saturated_sum(rest.bytes, order[i].second.bytes);
    rest.blocks += order[i].second.blocks;
  }
  if (order.size() > kHolders) order.resize(kHolders);
  json.objects("held", order, [&](const auto& entry) {
    const auto& [key, h] = entry;
    json.member("kind", key[0]).member("layer", key[1]).member("operation", key[2]);
    json.member("bytes", h.bytes).member("blocks", h.blocks);
  });
  json.member("held_rest_bytes", rest.bytes).member("held_rest_blocks", rest.blocks);
}

}  // namespace

void write_roofline(JsonWriter& json, const overview::Overview& o) {
  const hardware::Device& d = o.baseline->model.device;
  json.key("roofline").begin_object().member("device", d.name).member("bandwidth_gbs", d.bandwidth_gbs);
  json.member("fp32_tflops", d.tflops_fp32).member("tf32_tflops", d.tflops_tf32).member("fp16_tflops", d.tflops_fp16);
  const std::size_t shown = std::min(kOperations, o.operations.size());
  json.objects("operations", std::span(o.operations).first(shown), [&](const overview::OperationWork& one) {
    json.member("operation", one.operation).member("family", one.family).member("dtype", one.dtype);
    json.member("flops", one.flops).member("bytes", one.bytes).member("ms", one.ns / 1e6).member("calls", one.kernels);
    json.member("share_of_roof", one.share_of_roof);
  });
  json.end_object();
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
    for (std::size_t at = from; at < std::min(until, moments); ++at) {
      std::int64_t& sum = bytes[at][static_cast<std::size_t>(block.kind)];
      sum = saturated_sum(sum, block.bytes);
    }
  }
  json.begin_object();
  write_holders(json, *baseline.model.trace, *curve);
  json.member("peak_bytes", curve->peak_bytes).member("peak_at", moment(curve->peak_at));
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

void write_sliders(JsonWriter& json, const std::vector<analysis::Slider>& sliders) {
  json.objects("sliders", sliders, [&](const analysis::Slider& slider) {
    json.member("name", slider.name).member("unit", slider.unit);
    if (slider.workers > 0) json.member("workers", slider.workers);
    if (!slider.about.empty()) json.member("about", slider.about);
    const auto column = [&](const char* name, const auto& value) {
      json.key(name).begin_array();
      for (const analysis::SliderPoint& p : slider.points) value(p);
      json.end_array();
    };
    // Hundredths of a microsecond are more than anybody reads off a slider.
    const auto time = [&](std::optional<Ns> t) { t ? json.raw(fmt::format("{:.5g}", to_ms(*t))) : json.null(); };
    column("x", [&](const analysis::SliderPoint& p) { json.value(p.x); });
    column("ms", [&](const analysis::SliderPoint& p) { time(p.step); });
    column("low_ms", [&](const analysis::SliderPoint& p) { time(p.low); });
    column("high_ms", [&](const analysis::SliderPoint& p) { time(p.high); });
    column("exposed_ms", [&](const analysis::SliderPoint& p) { time(p.exposed); });
    column("samples", [&](const analysis::SliderPoint& p) { json.value(p.samples); });
    column("peak_bytes", [&](const analysis::SliderPoint& p) { json.value(p.peak_bytes); });
  });
}

}  // namespace foretrace::report
