// Operation traces of pipeline-parallel jobs, one row per operation of a worker (the CSV form of ByteDance's straggler
// study): dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc. Times are seconds from the start of the step.
//
// All workers are in one file. A worker's lanes are its compute, its four directions of sends and receives, and everything
// else; steps are placed one after another on one clock. All columns other than name and times become arguments.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include "base/csv.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"
#include "trace/importers/event_rows.hpp"
#include "trace/importers/importer.hpp"
#include "trace/importers/stream_records.hpp"

namespace foretrace::trace {
namespace {

enum Field : std::uint8_t {
  kDp,
  kStage,
  kStep,
  kType,
  kStart,
  kDuration,
  kRank,
  kSeq,
  kChunk,
  kBatch,
  kGlobalChunk,
  kFields
};
constexpr std::array<std::string_view, kFields> kNames = {"dp_rank", "stage",  "step", "optype", "start_ts", "duration",
                                                          "rank",    "seq_id", "mc",   "mb_id",  "gmc"};
constexpr std::size_t kRequired = kDuration + 1;  // the fields before are always there

/// Which column holds which field; nothing when a required one is missing.
using Layout = std::array<std::size_t, kFields>;
std::optional<Layout> layout_of(std::string_view header) {
  Layout layout;
  layout.fill(SIZE_MAX);
  std::vector<std::string_view> columns;
  split_csv(header, columns);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const auto it = std::find(kNames.begin(), kNames.end(), columns[c]);
    if (it != kNames.end()) layout[static_cast<std::size_t>(it - kNames.begin())] = c;
  }
  for (std::size_t f = 0; f < kRequired; ++f) {
    if (layout[f] == SIZE_MAX) return std::nullopt;
  }
  return layout;
}

int sniff(std::string_view head) {
  const std::string_view line = head.substr(0, head.find('\n'));
  constexpr std::size_t kLongestHeader = 4096;
  return line.size() < kLongestHeader && layout_of(line) ? 100 : 0;
}

// Seconds as text to nanoseconds, exactly: the exponent moves by the six digits between seconds and microseconds.
std::optional<Ns> seconds(std::string_view text) {
  const std::size_t e = text.find_first_of("eE");
  std::int64_t exponent = 0;
  if (e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    // pandas writes e-05.
    const bool negative = digits.starts_with('-');
    if (negative) digits.remove_prefix(1);
    while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
    const std::optional<std::int64_t> value = parse_int64(digits);
    if (!value || *value > 100) return std::nullopt;
    exponent = negative ? -*value : *value;
  }
  return parse_us_as_ns(fmt::format("{}e{}", text.substr(0, e), exponent + 6));
}

// "3" and "3.0".
std::optional<std::int64_t> integer(std::string_view text) {
  const std::size_t dot = text.find('.');
  if (dot != std::string_view::npos && text.find_first_not_of('0', dot + 1) == std::string_view::npos) {
    text = text.substr(0, dot);
  }
  return parse_int64(text);
}

int lane_of(std::string_view type) {
  constexpr std::array<std::string_view, 5> kLanes = {"-compute", "forward-send", "forward-recv", "backward-send",
                                                      "backward-recv"};
  for (std::size_t i = 0; i < kLanes.size(); ++i) {
    if (type.find(kLanes[i]) != std::string_view::npos) return static_cast<int>(i);
  }
  return type == "gc" ? 0 : static_cast<int>(kLanes.size());
}
constexpr std::array<std::string_view, 6> kLaneNames = {"compute",       "forward-send",  "forward-recv",
                                                        "backward-send", "backward-recv", "synchronisation"};

class Reader {
 public:
  Reader(Trace& trace, Layout layout) : trace_(trace), rows_(trace), layout_(layout) {
    trace_.categories.push_back({trace_.strings.intern("operation"), EventKind::kOp});
  }

  void row(std::string_view line, std::uint64_t offset) {
    if (trimmed(line).empty()) return;
    split_csv(line, cells_);
    const auto cell = [&](Field f) { return layout_[f] < cells_.size() ? cells_[layout_[f]] : std::string_view{}; };
    std::array<std::int64_t, kFields> number{};
    number.fill(-1);
    bool good = true;
    for (const Field f : {kDp, kStage, kStep, kRank, kSeq, kChunk, kBatch, kGlobalChunk}) {
      if (cell(f).empty() && f >= kRequired) continue;
      const std::optional<std::int64_t> value = integer(cell(f));
      good = good && value && (f > kStage || *value >= 0);
      if (value) number[f] = *value;
    }
    const std::optional<Ns> start = seconds(cell(kStart));
    const std::optional<Ns> duration = seconds(cell(kDuration));
    constexpr Ns kLongest = 1'000'000 * kNsPerSecond;  // ten days: a guard against damaged times
    good = good && start && duration && !cell(kType).empty() && *duration >= 0 && *start > -kLongest &&
           *start < kLongest && *duration < kLongest;
    if (!good) {
      trace_.diagnostics.add("bad_row", Severity::kDataLoss, "rows that are not an operation with its times",
                             line.substr(0, 120), static_cast<std::int64_t>(offset));
      return;
    }
    add(cell(kType), number, *start, *duration);
  }

  // Steps one behind the other, in the order of their numbers.
  void lay_out() {
    std::map<std::int64_t, std::pair<Ns, Ns>> spans;
    for (std::size_t e = 0; e < trace_.size(); ++e) {
      const auto it = spans.try_emplace(step_[e], trace_.events.start[e], trace_.end(e)).first;
      it->second.first = std::min(it->second.first, trace_.events.start[e]);
      it->second.second = std::max(it->second.second, trace_.end(e));
    }
    Ns now = 0;
    for (auto& [step, span] : spans) {
      const Ns length = span.second - span.first;
      span.second = now - span.first;  // what moves its events
      now += length;
    }
    for (std::size_t e = 0; e < trace_.size(); ++e) trace_.events.start[e] += spans[step_[e]].second;
  }

 private:
  void add(std::string_view type, const std::array<std::int64_t, kFields>& n, Ns start, Ns duration) {
    EventRow row;
    row.start = start;
    row.duration = duration;
    row.name = trace_.strings.intern(type);
    row.lane = lane(n[kDp], n[kStage], n[kRank], lane_of(type));
    row.args = trace_.args.intern(
        fmt::format(R"({{"dp_rank":{},"stage":{},"rank":{},"step":{},"seq_id":{},"mc":{},"mb_id":{},"gmc":{}}})",
                    n[kDp], n[kStage], n[kRank], n[kStep], n[kSeq], n[kChunk], n[kBatch], n[kGlobalChunk]));
    rows_.add(row);
    step_.push_back(n[kStep]);
  }

  LaneId lane(std::int64_t dp, std::int64_t stage, std::int64_t rank, int which) {
    const auto [it, added] = lanes_.try_emplace({dp, stage, which}, LaneId{trace_.lanes.size()});
    if (!added) return it->second;
    Lane lane;
    lane.kind = LaneKind::kCpuThread;
    lane.pid_number = rank >= 0 ? rank : dp * 1'000'000 + stage;
    lane.tid_number = which;
    lane.pid = trace_.strings.intern(fmt::format("{}", lane.pid_number));
    lane.tid = trace_.strings.intern(fmt::format("{}", which));
    lane.name = trace_.strings.intern(kLaneNames[static_cast<std::size_t>(which)]);
    lane.process_name = trace_.strings.intern(fmt::format("dp {} stage {}", dp, stage));
    trace_.lanes.push_back(lane);
    return it->second;
  }

  Trace& trace_;
  EventRows rows_;
  Layout layout_;
  std::vector<std::string_view> cells_;  // of the current row
  std::map<std::tuple<std::int64_t, std::int64_t, int>, LaneId> lanes_;
  std::vector<std::int64_t> step_;
};

Result<Trace> read(ByteSource& source, const std::string& path, const LoadOptions& options) {
  Trace trace;
  trace.path = path;
  trace.format = "operations-csv";
  std::optional<Reader> reader;
  const auto take = [&](std::string_view text, std::uint64_t at, bool ended) -> Result<std::size_t> {
    std::size_t begin = 0;
    while (begin < text.size()) {
      const std::size_t end = text.find('\n', begin);
      if (end == std::string_view::npos && !ended) break;
      const std::string_view line = text.substr(begin, end - begin);
      if (!reader) {
        const std::optional<Layout> layout = layout_of(line);
        if (!layout) {
          return tl::unexpected(Error{ErrorCode::kUnreadable, "the first line does not name the columns", path, 0,
                                      "dp_rank,stage,step,optype,start_ts,duration must be among them"});
        }
        reader.emplace(trace, *layout);
      } else {
        reader->row(line, at + begin);
      }
      begin = end == std::string_view::npos ? text.size() : end + 1;
    }
    return begin;
  };
  FORETRACE_TRY_VOID(read_records(source, trace, options, take));
  if (reader) reader->lay_out();
  trace.args.decode(trace.strings);
  return trace;
}

}  // namespace

Importer operations_csv_importer() {
  return {"operations-csv", "operations of a pipeline-parallel job, one row each", ".csv .csv.gz", sniff, read};
}

}  // namespace foretrace::trace
