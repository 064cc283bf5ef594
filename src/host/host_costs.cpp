// Reads the figures of a host. One table maps the name of a figure to its place in HostCosts, so a figure is added in the header
// and in one line here.

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/byte_source.hpp"
#include "base/csv.hpp"
#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/suggest.hpp"
#include "base/text.hpp"
#include "foretrace/host/unprofiled.hpp"

namespace foretrace::host {

namespace {

constexpr std::string_view kFolder = "host/hosts";
// A guard against damaged files: no figure of a host is a second, and none is negative.
constexpr double kLargestFigure = 1e6;

struct Figure {
  std::string_view name;
  double* value;
};

// The figures of a file and where they are kept. This is the only list of names.
std::vector<Figure> figures_of(HostCosts& c) {
  return {
      {"launch_call_us", &c.reference.launch_call_us},
      {"launch_follows", &c.reference.launch_exponent},
      {"empty_us", &c.reference.empty_us},
      {"probe_view_us", &c.reference.view_us},
      {"usual_speed", &c.default_speed},
      {"speed_spread", &c.speed_spread},
      {"event_op_us", &c.profiler.op_us},
      {"event_nvtx_us", &c.profiler.nvtx_us},
      {"event_call_us", &c.profiler.call_us},
      {"event_injected_call_us", &c.profiler.injected_call_us},
      {"event_short_call_us", &c.profiler.short_call_us},
      {"event_layer_us", &c.profiler.layer_us},
      {"event_frame_us", &c.profiler.frame_us},
      {"left", &c.profiler.remaining_share},
      {"module_us", &c.eager.module_us},
      {"modules_of_op", &c.eager.modules_per_op},
      {"counted_backward", &c.launches.backward_weight},
      {"counted_update", &c.launches.update_weight},
      {"counted_compiled", &c.launches.compiled_weight},
      {"follows", &c.speed_exponent},
      {"launch_forward_us", &c.launches.us[0]},
      {"launch_backward_us", &c.launches.us[1]},
      {"launch_update_us", &c.launches.us[2]},
      {"op_us", &c.eager.op_us},
      {"cast_us", &c.eager.cast_us},
      {"scaler_us", &c.eager.scaler_us},
      {"node_us", &c.eager.node_us},
      {"rnn_weight_us", &c.eager.rnn_weight_us},
      {"checkpoint_forward_us", &c.checkpoint.forward_us},
      {"checkpoint_backward_us", &c.checkpoint.backward_us},
      {"reentrant_share", &c.checkpoint.reentrant_share},
      {"fused_tensor_us", &c.update.fused_tensor_us},
      {"foreach_tensor_us", &c.update.foreach_tensor_us},
      {"list_tensor_us", &c.update.list_tensor_us},
      {"compiled_call_us", &c.compiled.call_us},
      {"compiled_launch_us", &c.compiled.launch_us},
      {"graph_call_us", &c.cuda_graph.call_us},
      {"graph_node_us", &c.cuda_graph.node_us},
      {"function_us", &c.python.function_us},
      {"function_tensor_us", &c.python.function_tensor_us},
      {"triton_launch_us", &c.python.launch_us},
      {"hooked_copy_us", &c.eager.hooked_copy_us},
      {"take_batch_us", &c.loader.take_batch_us},
      {"open_batch_us", &c.loader.open_batch_us},
      {"open_tensor_us", &c.loader.open_tensor_us},
      {"copy_call_us", &c.loader.copy_call_us},
      {"slower_with_workers", &c.loader.slower_with_workers},
      {"ddp_gradient_us", &c.ddp.gradient_us},
      {"ddp_copy_back_us", &c.ddp.copy_back_us},
      {"ddp_collective_us", &c.ddp.collective_us},
      {"ddp_wait_us", &c.ddp.wait_us},
      {"ddp_hook_us", &c.ddp.hook_us},
      {"ddp_forward_us", &c.ddp.forward_us},
      {"ddp_buffers_us", &c.ddp.buffers_us},
      {"ddp_buffer_us", &c.ddp.buffer_us},
      {"hook_op_us", &c.compression.op_us},
      {"powersgd_matrix_us", &c.compression.powersgd_matrix_us},
      {"powersgd_vector_us", &c.compression.powersgd_vector_us},
      {"shard_gather_us", &c.fsdp.gather_us},
      {"shard_gather_tensor_us", &c.fsdp.gather_tensor_us},
      {"shard_copy_us", &c.fsdp.copy_us},
      {"shard_copy_tensor_us", &c.fsdp.copy_tensor_us},
      {"shard_reduce_us", &c.fsdp.reduce_us},
      {"shard_reduce_tensor_us", &c.fsdp.reduce_tensor_us},
      {"shard_fill_share", &c.fsdp.fill_share},
      {"shard_forward_us", &c.fsdp.forward_us},
      {"shard_backward_us", &c.fsdp.backward_us},
      {"shard_update_tensor_us", &c.fsdp.update_tensor_us},
      {"flat_unit_share", &c.fsdp.flat_unit_share},
      {"flat_tensor_share", &c.fsdp.flat_tensor_share},
      {"sigma", &c.uncertainty.shared},
      {"sigma_forward", &c.uncertainty.phase[0]},
      {"sigma_backward", &c.uncertainty.phase[1]},
      {"sigma_update", &c.uncertainty.phase[2]},
      {"sigma_loading", &c.uncertainty.loading},
      {"moment", &c.uncertainty.run_to_run},
  };
}

// What `foretrace calibrate` measures: times of this host at its own speed.
struct Calibrated {
  double view_us = 0, event_us = 0, speed = 0;
};

Result<HostCosts> parse_over(HostCosts costs, std::string_view csv, std::string_view file) {
  Calibrated calibrated;
  std::vector<Figure> figures = figures_of(costs);
  figures.insert(figures.begin(),
                 {{"view_us", &calibrated.view_us}, {"event_us", &calibrated.event_us}, {"speed", &calibrated.speed}});
  std::size_t given = 0;
  for (CsvReader row(csv, {"figure", "value"}); row.next();) {
    const std::string_view name = row["figure"];
    const auto wrong = [&](std::string_view what, std::string hint) {
      return row.error(what, std::string(file), std::move(hint));
    };
    const std::optional<double> value = row.number("value");
    if (!value) {
      return wrong("not figure,value,sample,spread", "`foretrace calibrate` and tools/fit_host.py write such files");
    }
    const auto found = std::find_if(figures.begin(), figures.end(), [&](const Figure& f) { return f.name == name; });
    if (found == figures.end()) {
      std::vector<std::string> names;
      for (const Figure& figure : figures) names.emplace_back(figure.name);
      return wrong(fmt::format("'{}' is not a known figure of a host", name), did_you_mean(name, names));
    }
    if (!(*value > 0) || *value > kLargestFigure) {
      return wrong(fmt::format("a {} of {} is impossible", name, row["value"]), "figures are positive numbers");
    }
    *found->value = *value;
    ++given;
  }
  if (given == 0) {
    return tl::unexpected(Error{ErrorCode::kUnreadable, "the file holds no figures of a host", std::string(file),
                                Error::kNoOffset, "`foretrace calibrate -o host.csv` writes such a file"});
  }
  if (calibrated.speed > 0) costs.speed = calibrated.speed;
  // The probe takes as long as the host is slow; recording was timed at that speed.
  if (calibrated.view_us > 0) costs.speed = calibrated.view_us / costs.reference.view_us;
  if (calibrated.event_us > 0) costs.profiler.op_us = calibrated.event_us / costs.speed.value_or(1);
  return costs;
}

}  // namespace

const HostCosts& HostCosts::built_in() {
  static const HostCosts kBuiltIn = [] {
    const DataFiles& files = DataFiles::shipped();
    HostCosts empty;
    empty.name = files.reference_host();
    return parse_over(empty, files.at(fmt::format("{}/{}.csv", kFolder, empty.name)).text, empty.name).value();
  }();
  return kBuiltIn;
}

std::optional<HostCosts> HostCosts::find(std::string_view host) {
  for (const DataFile& file : DataFiles::shipped().in(kFolder)) {
    if (file.stem() == host) return parse(file.text, host).value();
  }
  return std::nullopt;
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
