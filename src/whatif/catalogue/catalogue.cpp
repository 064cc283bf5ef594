#include "whatif/catalogue/catalogue.hpp"

#include <algorithm>

namespace foretrace::whatif {

const std::vector<WhatIf>& catalogue() {
  static const std::vector<WhatIf> kAll = [] {
    // clang-format off: one line each, so that additions do not meet
    std::vector<WhatIf> all = {
        accumulate_whatif(),
        amp_whatif(),
        bandwidth_whatif(),
        batch_whatif(),
        batchnorm_whatif(),
        blueconnect_whatif(),
        bucket_whatif(),
        channels_last_whatif(),
        checkpoint_whatif(),
        compile_whatif(),
        compress_activations_whatif(),
        compress_gradients_whatif(),
        cpu_whatif(),
        cuda_graph_whatif(),
        dataloader_whatif(),
        ddp_whatif(),
        duration_whatif(),
        flash_attention_whatif(),
        foreach_optimizer_whatif(),
        fsdp_whatif(),
        fused_optimizer_whatif(),
        gpu_whatif(),
        horovod_whatif(),
        no_sync_whatif(),
        offload_whatif(),
        p3_whatif(),
        ps_whatif(),
        substitute_whatif(),
        tf32_whatif(),
        zero1_whatif(),
        zero2_whatif(),
        zero3_whatif(),
    };
    // clang-format on
    std::sort(all.begin(), all.end(), [](const WhatIf& a, const WhatIf& b) { return a.name < b.name; });
    return all;
  }();
  return kAll;
}

}  // namespace foretrace::whatif
