#pragma once
// Every what-if of the catalogue, one function and one file each. The list is in catalogue.cpp.

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

WhatIf accumulate_whatif();
WhatIf amp_whatif();
WhatIf bandwidth_whatif();
WhatIf batch_whatif();
WhatIf batchnorm_whatif();
WhatIf blueconnect_whatif();
WhatIf bucket_whatif();
WhatIf channels_last_whatif();
WhatIf checkpoint_whatif();
WhatIf compile_whatif();
WhatIf compress_activations_whatif();
WhatIf compress_gradients_whatif();
WhatIf cpu_whatif();
WhatIf cuda_graph_whatif();
WhatIf dataloader_whatif();
WhatIf ddp_whatif();
WhatIf duration_whatif();
WhatIf flash_attention_whatif();
WhatIf foreach_optimizer_whatif();
WhatIf fsdp_whatif();
WhatIf fused_optimizer_whatif();
WhatIf gpu_whatif();
WhatIf horovod_whatif();
WhatIf no_sync_whatif();
WhatIf offload_whatif();
WhatIf p3_whatif();
WhatIf ps_whatif();
WhatIf substitute_whatif();
WhatIf tf32_whatif();
WhatIf zero1_whatif();
WhatIf zero2_whatif();
WhatIf zero3_whatif();

}  // namespace foretrace::whatif
