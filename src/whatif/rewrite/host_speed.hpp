#pragma once
// Another speed of the host.

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// All CPU work takes `factor` times as long, and so does what later what-ifs add.
void scale_host(Model& model, Draft& draft, double factor);

}  // namespace foretrace::whatif
