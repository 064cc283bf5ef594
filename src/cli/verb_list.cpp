#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/verbs.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "report/exporter.hpp"
#include "report/json_writer.hpp"
#include "report/text_table.hpp"

namespace foretrace::cli {
namespace {

using report::Align;

// `write` fills the array called `name`.
template <class Write>
Answer json_list(const char* name, const Write& write) {
  return Answer{report::json_text([&](report::JsonWriter& json) {
    json.begin_object().member("schema", 1).key(name).begin_array();
    write(json);
    json.end_array().end_object();
  })};
}

void write_formats(report::JsonWriter& json) {
  for (const trace::FormatInfo& format : trace::formats()) {
    json.begin_object().member("name", format.name).member("about", format.about);
    json.member("extensions", format.extensions).end_object();
  }
  json.end_array().key("exports").begin_array();
  for (const report::Exporter& exporter : report::exporters()) {
    json.begin_object().member("name", exporter.name).member("about", exporter.about);
    json.member("extensions", exporter.extensions).end_object();
  }
}

Result<Answer> list_formats(const Request& request) {
  if (request.json) return json_list("formats", write_formats);
  report::TextTable reads({{"reads", Align::kLeft}, {"what", Align::kLeft, false, true}, {"files", Align::kLeft}}, 0);
  for (const trace::FormatInfo& format : trace::formats()) reads.row({format.name, format.about, format.extensions});
  report::TextTable writes({{"exports", Align::kLeft}, {"what", Align::kLeft, false, true}, {"files", Align::kLeft}},
                           0);
  for (const report::Exporter& exporter : report::exporters()) {
    writes.row({std::string(exporter.name), std::string(exporter.about), std::string(exporter.extensions)});
  }
  return Answer{reads.render(request.style) + "\n" + writes.render(request.style)};
}

void write_devices(report::JsonWriter& json) {
  for (const hardware::Device& d : hardware::devices()) {
    json.begin_object().member("name", d.name).member("full_name", d.full_name).member("sm_count", d.sm_count);
    json.member("memory_gb", d.memory_gb).member("bandwidth_gbs", d.bandwidth_gbs).member("tflops_fp32", d.tflops_fp32);
    json.member("tflops_tf32", d.tflops_tf32)
        .member("tflops_fp16", d.tflops_fp16)
        .member("usd_per_hour", d.usd_per_hour > 0 ? std::optional(d.usd_per_hour) : std::nullopt)
        .member("price_source", d.price_source)
        .member("source", d.source)
        .end_object();
  }
}

Result<Answer> list_devices(const Request& request) {
  if (request.json) return json_list("devices", write_devices);
  const auto figure = [](double value, const char* format) {
    return value > 0 ? fmt::format(fmt::runtime(format), value) : "-";
  };
  report::TextTable table({{"device", Align::kLeft},
                           {.header = "SMs", .drop = 1},
                           {"GB"},
                           {"GB/s"},
                           {"FP32 TFLOP/s"},
                           {"TF32"},
                           {"FP16"},
                           {"$/h"}},
                          0);
  for (const hardware::Device& d : hardware::devices()) {
    table.row({d.name, figure(d.sm_count, "{:.0f}"), figure(d.memory_gb, "{:.0f}"), figure(d.bandwidth_gbs, "{:.0f}"),
               figure(d.tflops_fp32, "{:.1f}"), figure(d.tflops_tf32, "{:.0f}"), figure(d.tflops_fp16, "{:.0f}"),
               figure(d.usd_per_hour, "{:.2f}")});
  }
  return Answer{table.render(request.style)};
}

void write_fabrics(report::JsonWriter& json) {
  for (const hardware::Fabric& f : hardware::fabrics()) {
    json.begin_object().member("name", f.name).member("about", f.about).member("gpus_per_node", f.gpus_per_node);
    json.key("levels").begin_array();
    for (const hardware::FabricLevel& l : f.levels) {
      json.begin_object().member("name", l.name).member("link", to_string(l.link)).member("gbs", l.gbs);
      json.member("per_node", l.per_node).member("efficiency", l.efficiency).end_object();
    }
    json.end_array().member("source", f.source).end_object();
  }
}

Result<Answer> list_fabrics(const Request& request) {
  if (request.json) return json_list("fabrics", write_fabrics);
  report::TextTable table({{"fabric", Align::kLeft}, {"GPUs/node"}, {"GB/s"}, {"what", Align::kLeft, false, true}}, 0);
  for (const hardware::Fabric& f : hardware::fabrics()) {
    std::string rates;
    for (const hardware::FabricLevel& l : f.levels) rates += fmt::format("{}{:g}", rates.empty() ? "" : " | ", l.gbs);
    table.row({f.name, fmt::format("{}", f.gpus_per_node), rates, f.about});
  }
  return Answer{table.render(request.style)};
}

struct Listing {
  const char* name;
  Result<Answer> (*run)(const Request&);
};
// One line for each thing that can be listed.
constexpr Listing kListings[] = {{"whatifs", list_whatifs},
                                 {"devices", list_devices},
                                 {"gpus", list_devices},
                                 {"fabrics", list_fabrics},
                                 {"formats", list_formats}};

Result<Answer> run_list(const Request& request) {
  const std::string& what = request.values.argument("WHAT").front();
  if (what != "whatifs" && (!request.values.argument("NAME").empty() || request.values.flag("markdown"))) {
    return fail(ErrorCode::kUsage, fmt::format("list {} takes neither a NAME nor --markdown", what),
                "`foretrace list whatifs NAME` describes a what-if");
  }
  for (const Listing& listing : kListings) {
    if (what == listing.name) return listing.run(request);
  }
  return fail(ErrorCode::kInternal, "an allowed name has no listing");
}

}  // namespace

Verb list_verb() {
  Verb verb{.name = "list",
            .about = "what this build knows",
            .arguments = {{"WHAT", "one of"},
                          {"NAME", "with whatifs: only these, in full", 0, Argument::kAny, {}, whatif_names()}},
            .options = {flag("markdown", "with whatifs: as the table in the documentation")},
            .examples = {{"foretrace list whatifs", "the changes it can predict"},
                         {"foretrace list whatifs amp", "one of them in full"},
                         {"foretrace list gpus", "the GPUs it knows; the same as devices"},
                         {"foretrace list fabrics", "the networks it knows"},
                         {"foretrace list formats", "the trace formats it reads"}},
            .shares = kPlugins,
            .run = run_list};
  for (const Listing& listing : kListings) verb.arguments[0].choices.emplace_back(listing.name);
  return verb;
}

}  // namespace foretrace::cli
