#include "whatif/catalogue/catalogue.hpp"

#include <algorithm>

namespace foretrace::whatif {

const std::vector<WhatIf>& catalogue() {
  static const std::vector<WhatIf> kAll = [] {
    std::vector<WhatIf> all = {
        accumulate_whatif(),
        bandwidth_whatif(),
        bucket_whatif(),
        compress_gradients_whatif(),
        blueconnect_whatif(),
        p3_whatif(),
        fsdp_whatif(),
        ddp_whatif(),
        amp_whatif(),
        batch_whatif(),
        channels_last_whatif(),
        checkpoint_whatif(),
        cpu_whatif(),
        cuda_graph_whatif(),
        duration_whatif(),
        flash_attention_whatif(),
        foreach_optimizer_whatif(),
        fused_optimizer_whatif(),
        gpu_whatif(),
        no_sync_whatif(),
        tf32_whatif(),
    };
    std::sort(all.begin(), all.end(), [](const WhatIf& a, const WhatIf& b) { return a.name < b.name; });
    return all;
  }();
  return kAll;
}

}  // namespace foretrace::whatif
