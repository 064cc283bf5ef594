#pragma once
// The kind of a job: what include/foretrace/ranks/job.hpp describes, found in one step of it.

#include "foretrace/ranks/job.hpp"
#include "hardware/collective.hpp"
#include "ranks/collectives.hpp"
#include "ranks/job_graph.hpp"
#include "ranks/program_order.hpp"

namespace foretrace::ranks {

/// `fabric`: what joins the ranks; null where nobody knows.
JobKind find_kind(const Job& job, const Matching& matching, const JobGraph& graph, const ProgramOrder& order,
                  const hardware::CollectiveModel* fabric);

/// "pipeline of 4 stages, 8 micro-batches, 1F1B".
std::string in_words(const PipelineShape& shape);

}  // namespace foretrace::ranks
