#include "foretrace/host/host_costs.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "base/byte_source.hpp"
#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/suggest.hpp"

namespace foretrace::host {

namespace {

// A guard against damaged files: no figure of a host is a second, and none is negative.
constexpr double kMost = 1e6;

struct Figure {
  std::string_view name;
  double* (*place)(HostCosts&);
};

constexpr Figure kFigures[] = {
    {"launch_call_us", [](HostCosts& c) { return &c.launch_call_us; }},
    {"launch_follows", [](HostCosts& c) { return &c.launch_follows; }},
    {"empty_us", [](HostCosts& c) { return &c.empty_us; }},
    {"probe_view_us", [](HostCosts& c) { return &c.probe_view_us; }},
    {"usual_speed", [](HostCosts& c) { return &c.usual_speed; }},
    {"event_op_us", [](HostCosts& c) { return &c.event_op_us; }},
    {"event_nvtx_us", [](HostCosts& c) { return &c.event_nvtx_us; }},
    {"event_call_us", [](HostCosts& c) { return &c.event_call_us; }},
    {"event_injected_call_us", [](HostCosts& c) { return &c.event_injected_call_us; }},
    {"event_short_call_us", [](HostCosts& c) { return &c.event_short_call_us; }},
    {"event_layer_us", [](HostCosts& c) { return &c.event_layer_us; }},
    {"event_frame_us", [](HostCosts& c) { return &c.event_frame_us; }},
    {"left", [](HostCosts& c) { return &c.left; }},
    {"module_us", [](HostCosts& c) { return &c.module_us; }},
    {"modules_of_op", [](HostCosts& c) { return &c.modules_of_op; }},
    {"counted_backward", [](HostCosts& c) { return &c.counted_backward; }},
    {"counted_update", [](HostCosts& c) { return &c.counted_update; }},
    {"counted_compiled", [](HostCosts& c) { return &c.counted_compiled; }},
    {"follows", [](HostCosts& c) { return &c.follows; }},
    {"speed", [](HostCosts& c) { return &c.speed.emplace(); }},
    {"launch_forward_us", [](HostCosts& c) { return &c.launch_us[0]; }},
    {"launch_backward_us", [](HostCosts& c) { return &c.launch_us[1]; }},
    {"launch_update_us", [](HostCosts& c) { return &c.launch_us[2]; }},
    {"op_us", [](HostCosts& c) { return &c.op_us; }},
    {"cast_us", [](HostCosts& c) { return &c.cast_us; }},
    {"scaler_us", [](HostCosts& c) { return &c.scaler_us; }},
    {"node_us", [](HostCosts& c) { return &c.node_us; }},
    {"rnn_weight_us", [](HostCosts& c) { return &c.rnn_weight_us; }},
    {"checkpoint_forward_us", [](HostCosts& c) { return &c.checkpoint_forward_us; }},
    {"checkpoint_backward_us", [](HostCosts& c) { return &c.checkpoint_backward_us; }},
    {"reentrant_share", [](HostCosts& c) { return &c.reentrant_share; }},
    {"fused_tensor_us", [](HostCosts& c) { return &c.fused_tensor_us; }},
    {"foreach_tensor_us", [](HostCosts& c) { return &c.foreach_tensor_us; }},
    {"list_tensor_us", [](HostCosts& c) { return &c.list_tensor_us; }},
    {"compiled_call_us", [](HostCosts& c) { return &c.compiled_call_us; }},
    {"compiled_launch_us", [](HostCosts& c) { return &c.compiled_launch_us; }},
    {"graph_call_us", [](HostCosts& c) { return &c.graph_call_us; }},
    {"graph_node_us", [](HostCosts& c) { return &c.graph_node_us; }},
    {"function_us", [](HostCosts& c) { return &c.function_us; }},
    {"function_tensor_us", [](HostCosts& c) { return &c.function_tensor_us; }},
    {"hooked_copy_us", [](HostCosts& c) { return &c.hooked_copy_us; }},
    {"take_batch_us", [](HostCosts& c) { return &c.take_batch_us; }},
    {"open_batch_us", [](HostCosts& c) { return &c.open_batch_us; }},
    {"open_tensor_us", [](HostCosts& c) { return &c.open_tensor_us; }},
    {"copy_call_us", [](HostCosts& c) { return &c.copy_call_us; }},
    {"ddp_gradient_us", [](HostCosts& c) { return &c.ddp_gradient_us; }},
    {"ddp_copy_back_us", [](HostCosts& c) { return &c.ddp_copy_back_us; }},
    {"ddp_collective_us", [](HostCosts& c) { return &c.ddp_collective_us; }},
    {"ddp_wait_us", [](HostCosts& c) { return &c.ddp_wait_us; }},
    {"ddp_hook_us", [](HostCosts& c) { return &c.ddp_hook_us; }},
    {"ddp_forward_us", [](HostCosts& c) { return &c.ddp_forward_us; }},
    {"ddp_buffers_us", [](HostCosts& c) { return &c.ddp_buffers_us; }},
    {"ddp_buffer_us", [](HostCosts& c) { return &c.ddp_buffer_us; }},
    {"hook_op_us", [](HostCosts& c) { return &c.hook_op_us; }},
    {"powersgd_matrix_us", [](HostCosts& c) { return &c.powersgd_matrix_us; }},
    {"powersgd_vector_us", [](HostCosts& c) { return &c.powersgd_vector_us; }},
    {"shard_gather_us", [](HostCosts& c) { return &c.shard_gather_us; }},
    {"shard_gather_tensor_us", [](HostCosts& c) { return &c.shard_gather_tensor_us; }},
    {"shard_copy_us", [](HostCosts& c) { return &c.shard_copy_us; }},
    {"shard_copy_tensor_us", [](HostCosts& c) { return &c.shard_copy_tensor_us; }},
    {"shard_reduce_us", [](HostCosts& c) { return &c.shard_reduce_us; }},
    {"shard_reduce_tensor_us", [](HostCosts& c) { return &c.shard_reduce_tensor_us; }},
    {"shard_fill_share", [](HostCosts& c) { return &c.shard_fill_share; }},
    {"shard_forward_us", [](HostCosts& c) { return &c.shard_forward_us; }},
    {"shard_backward_us", [](HostCosts& c) { return &c.shard_backward_us; }},
    {"shard_update_tensor_us", [](HostCosts& c) { return &c.shard_update_tensor_us; }},
    {"flat_unit_share", [](HostCosts& c) { return &c.flat_unit_share; }},
    {"flat_tensor_share", [](HostCosts& c) { return &c.flat_tensor_share; }},
    {"sigma", [](HostCosts& c) { return &c.sigma; }},
    {"sigma_forward", [](HostCosts& c) { return &c.sigma_phase[0]; }},
    {"sigma_backward", [](HostCosts& c) { return &c.sigma_phase[1]; }},
    {"sigma_update", [](HostCosts& c) { return &c.sigma_phase[2]; }},
    {"moment", [](HostCosts& c) { return &c.moment; }},
};

// What `foretrace calibrate` measures, as it measures it: times of this host at its own speed.
struct Probed {
  double view_us = 0, event_us = 0;
};

Result<HostCosts> parse_over(HostCosts costs, std::string_view csv, std::string_view file) {
  std::size_t given = 0;
  Probed probed;
  for (CsvReader row(csv, {"figure", "value"}); row.next();) {
    const std::string_view name = row["figure"];
    const auto wrong = [&](std::string_view what, std::string hint) {
      return row.error(what, std::string(file), std::move(hint));
    };
    const std::optional<double> value = row.number("value");
    if (!value) {
      return wrong("not figure,value,sample,spread", "`foretrace calibrate` and tools/fit_host.py write such files");
    }
    double* place = name == "view_us" ? &probed.view_us : name == "event_us" ? &probed.event_us : nullptr;
    std::vector<std::string> names{"view_us", "event_us"};
    for (const Figure& figure : kFigures) {
      if (figure.name == name) place = figure.place(costs);
      names.emplace_back(figure.name);
    }
    if (place == nullptr) return wrong(fmt::format("'{}' is no figure of a host", name), did_you_mean(name, names));
    if (!(*value > 0) || *value > kMost) {
      return wrong(fmt::format("no host has a {} of {}", name, row["value"]), "figures are positive numbers");
    }
    *place = *value;
    ++given;
  }
  if (given == 0) {
    return tl::unexpected(Error{ErrorCode::kUnreadable, "the file holds no figure of a host", std::string(file),
                                Error::kNoOffset, "`foretrace calibrate -o host.csv` writes such a file"});
  }
  if (probed.view_us > 0) costs.speed = probed.view_us / costs.probe_view_us;
  if (probed.event_us > 0) costs.event_op_us = probed.event_us / costs.speed.value_or(1);
  return costs;
}

}  // namespace

const HostCosts& HostCosts::built_in() {
  static const HostCosts kBuiltIn = [] {
    const DataFiles& files = DataFiles::shipped();
    const DataFile& file = files.at(fmt::format("host/hosts/{}.csv", files.reference_host()));
    HostCosts none;
    none.name = file.stem();
    Result<HostCosts> costs = parse_over(none, file.text, file.stem());
    FORETRACE_CHECK(costs.has_value());
    return *costs;
  }();
  return kBuiltIn;
}

Result<HostCosts> HostCosts::parse(std::string_view csv, std::string_view file) {
  HostCosts costs = built_in();
  costs.name = file;
  return parse_over(std::move(costs), csv, file);
}

Result<HostCosts> HostCosts::read(const std::string& path) {
  FORETRACE_TRY(const std::string text, read_file(path));
  return parse(text, path);
}

}  // namespace foretrace::host
