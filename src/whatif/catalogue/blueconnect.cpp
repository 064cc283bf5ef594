#include "whatif/catalogue/catalogue.hpp"
#include "whatif/parallel/scheme_whatif.hpp"

namespace foretrace::whatif {

namespace {

WhatIf blueconnect_whatif() {
  WhatIf w = scheme_whatif(
      "blueconnect",
      {bucket_mb_parameter(), slice_mb_parameter("buckets are cut into parts of this many MiB; 0: sent whole", "0")});
  w.about = "all-reduce taken apart along the levels of the network, each a channel of its own";
  w.assumes = "levels work side by side";
  w.source = "BlueConnect (Cho et al. 2019); Daydream";
  w.code = "reduce-scatter inside nodes, all-reduce between, all-gather inside";
  return w;
}

const Registered kRegistered(blueconnect_whatif);

}  // namespace

}  // namespace foretrace::whatif
