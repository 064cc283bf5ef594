// The devices and fabrics the library knows.

#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "foretrace/hardware/device.hpp"

namespace nb = nanobind;

namespace foretrace::python {

namespace {

nb::object known(double figure) { return figure > 0 ? nb::object(nb::float_(figure)) : nb::none(); }

nb::list devices() {
  nb::list list;
  for (const hardware::Device& device : hardware::devices()) {
    nb::dict d;
    d["name"] = to_str(device.name);
    d["full_name"] = to_str(device.full_name);
    d["vendor"] = to_str(device.vendor);
    d["sm_count"] = device.sm_count;
    d["memory_gb"] = device.memory_gb;
    d["bandwidth_gbs"] = device.bandwidth_gbs;
    d["tflops_fp32"] = device.tflops_fp32;
    d["tflops_tf32"] = known(device.tflops_tf32);
    d["tflops_fp16"] = known(device.tflops_fp16);
    d["tflops_bf16"] = known(device.tflops_bf16);
    d["usd_per_hour"] = known(device.usd_per_hour);
    d["price_source"] = to_str(device.price_source);
    d["source"] = to_str(device.source);
    list.append(d);
  }
  return list;
}

nb::list fabrics() {
  nb::list list;
  for (const hardware::Fabric& fabric : hardware::fabrics()) {
    nb::list levels;
    for (const hardware::FabricLevel& level : fabric.levels) {
      nb::dict l;
      l["name"] = to_str(level.name);
      l["link"] = to_str(to_string(level.link));
      l["gbs"] = level.gbs;
      l["per_node"] = level.per_node;
      l["efficiency"] = level.efficiency;
      levels.append(l);
    }
    nb::dict d;
    d["name"] = to_str(fabric.name);
    d["about"] = to_str(fabric.about);
    d["gpus_per_node"] = fabric.gpus_per_node;
    d["levels"] = levels;
    d["source"] = to_str(fabric.source);
    list.append(d);
  }
  return list;
}

}  // namespace

void bind_hardware(nb::module_& m) {
  m.def("devices", devices);
  m.def("fabrics", fabrics);
}

}  // namespace foretrace::python
