// Reads the traces of a job. A file that does not fit is left out with a note, because the others can still be used.

#include "foretrace/ranks/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>

#include "base/workers.hpp"
#include "ranks/missing.hpp"

namespace foretrace::ranks {
namespace {

using trace::kAbsent;

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

std::string unquoted(std::string_view json) {
  if (json.size() >= 2 && json.front() == '"' && json.back() == '"') json = json.substr(1, json.size() - 2);
  return std::string(json);
}

// The profiler's default file name is <host>_<pid>.<timestamp>.pt.trace.json.
std::string host_of(const trace::Trace& trace) {
  for (const std::string_view key : {"host_name", "hostname", "host"}) {
    if (const std::string_view value = trace.metadata_value(key); !value.empty()) return unquoted(value);
  }
  const std::string name = file_name(trace.path);
  const std::size_t mark = name.find(".pt.trace.json");
  if (mark == std::string::npos) return {};
  const std::string worker = name.substr(0, name.find('.'));
  const std::size_t underscore = worker.find_last_of('_');
  if (underscore == std::string::npos || underscore + 1 == worker.size()) return {};
  const bool pid = worker.find_first_not_of("0123456789", underscore + 1) == std::string::npos;
  const std::string host = worker.substr(0, underscore);
  // "worker_3" and "rank_3" name a rank, not a process of a host.
  return pid && host != "rank" && host != "worker" ? host : std::string{};
}

// What most traces say; ties go to the larger.
std::int64_t most_common(const std::vector<trace::Trace>& traces) {
  std::map<std::int64_t, std::size_t> votes;
  for (const trace::Trace& t : traces) {
    if (t.distributed.world_size > 0) ++votes[t.distributed.world_size];
  }
  std::int64_t best = 0;
  std::size_t most = 0;
  for (const auto& [size, count] : votes) {
    if (count >= most) {
      best = size;
      most = count;
    }
  }
  return best;
}

}  // namespace

std::string list_of(const std::vector<std::int64_t>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    if (!out.empty()) out += ", ";
    out += j > i + 1 ? fmt::format("{}-{}", numbers[i], numbers[j]) : fmt::format("{}", numbers[i]);
    i = j > i + 1 ? j + 1 : i + 1;
    if (out.size() > 80 && i < numbers.size()) return fmt::format("{} and {} more", out, numbers.size() - i);
  }
  return out;
}

std::vector<Result<trace::Trace>> load_all(const std::vector<std::string>& files, const trace::LoadOptions& options) {
  std::vector<std::optional<Result<trace::Trace>>> read(files.size());
  const unsigned threads = thread_count(options.threads);
  const auto workers = static_cast<unsigned>(std::min<std::size_t>(threads, files.size()));
  std::mutex mutex;
  std::atomic<std::size_t> done{0};
  trace::LoadOptions one = options;
  one.threads = std::max(1u, threads / std::max(1u, workers));
  one.progress = {};
  for_each_index(files.size(), workers, [&](std::size_t i) {
    read[i] = trace::load(files[i], one);
    const std::size_t finished = ++done;
    if (!options.progress) return;
    const std::lock_guard lock(mutex);
    options.progress("reading the ranks' traces", finished, files.size(), "files");
  });
  std::vector<Result<trace::Trace>> out;
  out.reserve(files.size());
  for (auto& r : read) out.push_back(std::move(*r));
  return out;
}

std::string note_of_missing(const Job& job) {
  return fmt::format(
      "{} of {} ranks have no trace ({}): when they arrived is unknown, so waiting for them counts as transfer",
      job.missing.size(), job.world_size, list_of(job.missing));
}

Result<Job> assemble(std::vector<trace::Trace> traces) {
  Job job;
  job.world_size = most_common(traces);
  const bool any_named =
      std::any_of(traces.begin(), traces.end(), [](const trace::Trace& t) { return t.distributed.rank != kAbsent; });
  job.ranks_named = any_named;
  if (!any_named && traces.size() > 1) {
    job.notes.emplace_back("no trace says which rank it is: ranks are numbered in the order of the files");
  }
  std::int64_t place = 0;
  for (trace::Trace& t : traces) {
    const std::string file = file_name(t.path);
    const trace::DistributedInfo& info = t.distributed;
    const std::int64_t here = place++;
    if (is_pipeline(t)) {
      job.notes.push_back(fmt::format("{} left out: it holds the operations of a whole job; give it alone", file));
      continue;
    }
    if (any_named && info.rank == kAbsent) {
      job.notes.push_back(fmt::format("{} left out: it does not say which rank it is", file));
      continue;
    }
    if (info.world_size > 0 && info.world_size != job.world_size) {
      job.notes.push_back(
          fmt::format("{} left out: it belongs to another job, of {} ranks; most traces belong to one of {}", file,
                      info.world_size, job.world_size));
      continue;
    }
    Rank rank;
    rank.rank = any_named ? info.rank : here;
    const auto twice =
        std::find_if(job.ranks.begin(), job.ranks.end(), [&](const Rank& r) { return r.rank == rank.rank; });
    if (twice != job.ranks.end()) {
      job.notes.push_back(fmt::format("{} left out: rank {} is given twice, first by {}", file, rank.rank,
                                      file_name(twice->trace.path)));
      continue;
    }
    rank.steps = trace::find_steps(t);
    if (rank.steps.steps.empty()) {
      job.notes.push_back(fmt::format("rank {} ({}) left out: it holds no event with a duration", rank.rank, file));
      continue;
    }
    if (t.partial) {
      job.notes.push_back(fmt::format("rank {} ({}) is truncated: the part before the cut is used", rank.rank, file));
    }
    rank.host = host_of(t);
    rank.trace = std::move(t);
    job.ranks.push_back(std::move(rank));
  }
  std::sort(job.ranks.begin(), job.ranks.end(), [](const Rank& a, const Rank& b) { return a.rank < b.rank; });
  if (job.ranks.empty()) {
    return fail(ErrorCode::kDeclined, "no usable trace is left" + (job.notes.empty() ? "" : ": " + job.notes.back()),
                "give the traces of one job, one file per rank");
  }
  job.world_size = std::max(job.world_size, static_cast<std::int64_t>(job.ranks.size()));
  constexpr std::int64_t kMostRanks = 1'000'000;  // a damaged file may claim any world size
  for (std::int64_t r = 0, at = 0; r < std::min(job.world_size, kMostRanks); ++r) {
    while (at < static_cast<std::int64_t>(job.ranks.size()) && job.ranks[static_cast<std::size_t>(at)].rank < r) ++at;
    const bool there =
        at < static_cast<std::int64_t>(job.ranks.size()) && job.ranks[static_cast<std::size_t>(at)].rank == r;
    if (!there) job.missing.push_back(r);
  }
  if (!job.missing.empty()) job.notes.push_back(note_of_missing(job));
  return job;
}

Result<Job> assemble(const std::vector<std::string>& files, std::vector<Result<trace::Trace>> read) {
  std::vector<trace::Trace> traces;
  std::vector<std::string> unread;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (read[i]) {
      traces.push_back(std::move(*read[i]));
    } else {
      unread.push_back(fmt::format("{} left out, it cannot be read: {}", file_name(files[i]), read[i].error().message));
    }
  }
  if (traces.empty()) return forward(read.front());
  FORETRACE_TRY(Job job, assemble(std::move(traces)));
  job.notes.insert(job.notes.begin(), unread.begin(), unread.end());
  return job;
}

Result<Job> load_job(const std::vector<std::string>& files, const trace::LoadOptions& options) {
  return assemble(files, load_all(files, options));
}

bool steps_are_numbered(const Job& job) {
  std::vector<std::int64_t> common;
  for (const Rank& r : job.ranks) {
    if (r.steps.source != trace::StepSource::kProfilerStep) return false;
    std::vector<std::int64_t> numbers;
    for (const trace::Step& s : r.steps.steps) numbers.push_back(s.number);
    std::sort(numbers.begin(), numbers.end());
    if (&r == &job.ranks.front()) {
      common = numbers;
      continue;
    }
    std::erase_if(common, [&](std::int64_t n) { return !std::binary_search(numbers.begin(), numbers.end(), n); });
  }
  return !common.empty();
}

}  // namespace foretrace::ranks
