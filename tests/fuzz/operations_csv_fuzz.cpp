// Operation traces of pipeline jobs on arbitrary bytes: importer, job, graphs of all steps, and the questions asked of it.
// The header may be missing from an input; it is put in front so that most inputs are about rows.

#include "foretrace/ranks/job.hpp"
#include "fuzz/format_checks.hpp"

using foretrace::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kHead = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";
  const auto trace = foretrace::fuzz::load_behind_head(data, size, kHead, "fuzz.csv");
  if (!trace || !foretrace::ranks::is_pipeline(*trace)) return 0;
  const auto job = foretrace::ranks::read_pipeline(*trace);
  if (!job) return 0;
  // Decompositions are one simulation per group: an input of thousands of ranks tells nothing more than one of a few.
  if (job->dp_size > 8 || job->stages > 8) return 0;
  const auto answers = foretrace::ranks::answer(*job);
  if (!answers) return 0;
  for (const auto& s : answers->steps) require(s.replayed >= 0 && s.ideal >= 0);
  return 0;
}
