#pragma once
// The network between workers, as the options of network_options() ask for it.

#include "cli/verb.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::cli {

using whatif::kMostWorkers;

/// Whether --fabric or --collectives is given.
bool names_network(const Values& values);

/// `workers` and the network; neither name nor file is looked up yet. An error when none is given.
Result<search::Communication> network_asked(const Values& values, std::int64_t workers);

}  // namespace foretrace::cli
