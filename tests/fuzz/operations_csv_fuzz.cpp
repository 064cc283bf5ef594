// Operation traces of pipeline jobs on arbitrary bytes: importer, job, graphs of all steps, and the questions asked of it.
// The header may be missing from an input; it is put in front so that most inputs are about rows.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "foretrace/ranks/pipeline.hpp"
#include "foretrace/trace/load.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view rows(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string text;
  if ((data[0] & 1) != 0) text = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";
  text += rows;
  foretrace::trace::LoadOptions options;
  options.threads = 1;
  options.partial = (data[0] & 2) != 0;
  const auto trace = foretrace::trace::load_bytes(text, "fuzz.csv", options);
  if (!trace || !foretrace::ranks::is_pipeline(*trace)) return 0;
  const auto& e = trace->events;
  for (std::size_t i = 0; i < trace->size(); ++i) {
    require(e.duration[i] >= 0 && e.lane[i].index() < trace->lanes.size() && e.name[i].index() < trace->strings.size());
  }
  const auto job = foretrace::ranks::read_pipeline(*trace);
  if (!job) return 0;
  // Decompositions are one simulation per group: an input of thousands of ranks tells nothing more than one of a few.
  if (job->dp_size > 8 || job->stages > 8) return 0;
  const auto answers = foretrace::ranks::answer(*job);
  if (!answers) return 0;
  for (const auto& s : answers->steps) require(s.replayed >= 0 && s.ideal >= 0);
  return 0;
}
