#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

WhatIf p3_whatif() {
  WhatIf w =
      scheme_whatif("p3", {servers_parameter(),
                           slice_mb_parameter("what is sent at once, MiB", "4"),
                           {"send_us", "CPU time of sending a slice", "25", {}, ParameterType::kNumber, false, 0},
                           {"priorities", "off: whole gradients, first come, first served", "on", {"on", "off"}}});
  w.about = "parameter servers with slices and priorities: what the next forward pass needs first is sent first";
  w.assumes = "updates at the servers, which add up as fast as a GPU like the worker's";
  w.source = "P3 (Jayarajan et al. 2019); Daydream";
  w.not_modelled = "the servers' own CPU time";
  w.code = "kvstore with priorities";
  w.validated = false;
  return w;
}

const Registered kRegistered(p3_whatif);

}  // namespace

}  // namespace foretrace::whatif
