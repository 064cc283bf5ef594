// Measured collectives from files: JSON lines, CSV, and the output of nccl-tests as it is printed.

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <set>

#include "base/byte_source.hpp"
#include "base/csv.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"
#include "hardware/collective.hpp"

namespace foretrace::hardware {

namespace {

using namespace std::string_view_literals;

constexpr double kMiB = 1 << 20;  // bytes, the unit
constexpr std::string_view kForms =
    R"(one of: lines of {"world", "coll", "mb", "ms"}; CSV with such a header; the output of nccl-tests)";

tl::unexpected<Error> bad(const std::string& origin, std::size_t line, std::string message) {
  return tl::unexpected<Error>(Error{ErrorCode::kUnreadable,
                                     line == 0 ? std::move(message) : fmt::format("line {}: {}", line, message), origin,
                                     Error::kNoOffset, std::string(kForms)});
}

// What the rows' sizes count, per collective: JSON lines give each rank's part of what is gathered or scattered.
double whole_bytes(Collective kind, double bytes, int ranks, bool per_rank_gather) {
  const bool in_parts = kind == Collective::kAllGather || kind == Collective::kGather || kind == Collective::kScatter;
  return in_parts && per_rank_gather ? bytes * ranks : bytes;
}

int channels_of(double recorded) {
  constexpr double kMostChannels = 1024;  // as a fabric's
  return static_cast<int>(std::clamp(recorded, 0.0, kMostChannels));
}

Status check(const CollectiveRow& row, const std::string& origin, std::size_t line) {
  constexpr int kMostRanks = 1 << 20;
  if (row.ranks < 1 || row.ranks > kMostRanks) return bad(origin, line, "the number of ranks is not from 1 to 1048576");
  if (!(row.bytes >= 0) || !std::isfinite(row.bytes)) return bad(origin, line, "the size is negative");
  if (!(row.ms > 0) || !std::isfinite(row.ms)) return bad(origin, line, "the time is not above 0");
  return {};
}

Result<std::vector<CollectiveRow>> read_json_lines(std::string_view text, const std::string& origin) {
  std::vector<CollectiveRow> rows;
  simdjson::dom::parser parser;
  std::size_t n = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++n;
    if (line.empty()) continue;
    simdjson::dom::object o;
    if (parser.parse(simdjson::padded_string(line)).get(o) != simdjson::SUCCESS) {
      return bad(origin, n, "not a JSON object");
    }
    CollectiveRow row;
    std::string_view coll;
    std::string_view tag;
    double world = 0;
    double mb = 0;
    if (o["coll"].get(coll) != simdjson::SUCCESS || o["world"].get(world) != simdjson::SUCCESS ||
        o["ms"].get(row.ms) != simdjson::SUCCESS) {
      return bad(origin, n, "coll, world or ms is missing or of the wrong type");
    }
    if (o["mb"].get(mb) == simdjson::SUCCESS) {
      mb *= kMiB;
    } else if (o["bytes"].get(mb) != simdjson::SUCCESS) {
      return bad(origin, n, "mb (or bytes) is missing or not a number");
    }
    std::string_view dtype;
    if (o["dtype"].get(dtype) == simdjson::SUCCESS && dtype != "float32")
      continue;  // buckets are FP32 unless compressed
    const std::optional<Collective> kind = parse_collective(coll);
    if (!kind) continue;  // a collective no scheme uses (barrier, …)
    if (o["tag"].get(tag) == simdjson::SUCCESS) row.tag = std::string(tag);
    row.kind = *kind;
    row.ranks = world >= 0 && world <= 1 << 30 ? static_cast<int>(world) : -1;
    double channels = 0;
    if (o["channels"].get(channels) == simdjson::SUCCESS) row.channels = channels_of(channels);
    row.bytes = whole_bytes(*kind, mb, row.ranks, true);
    if (Status ok = check(row, origin, n); !ok) return tl::unexpected<Error>(ok.error());
    rows.push_back(std::move(row));
  }
  return rows;
}

// The cell of the first of these columns that the table has: people name them differently.
std::string_view any_of(const CsvReader& row, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (std::find(row.columns().begin(), row.columns().end(), name) != row.columns().end()) return row[name];
  }
  return {};
}

Result<std::vector<CollectiveRow>> read_csv(std::string_view text, const std::string& origin) {
  std::vector<CollectiveRow> rows;
  CsvReader cells(text);
  const auto has = [&](std::initializer_list<std::string_view> names) {
    return std::find_first_of(cells.columns().begin(), cells.columns().end(), names.begin(), names.end()) !=
           cells.columns().end();
  };
  const auto kinds = {"coll"sv, "collective"sv, "op"sv, "operation"sv};
  const auto worlds = {"world"sv, "ranks"sv, "nranks"sv, "num_workers"sv, "gpus"sv};
  const auto sizes = {"mb"sv, "bytes"sv, "size"sv, "message_bytes"sv};
  const auto times = {"ms"sv, "time_ms"sv, "us"sv, "time_us"sv};
  if (!has(kinds) || !has(worlds) || !has(sizes) || !has(times)) {
    return bad(origin, 1,
               "the header names no collective (coll), rank count (world), size (mb, bytes) or time (ms, us)");
  }
  const bool mebibytes = has({"mb"sv}), milliseconds = has({"ms"sv, "time_ms"sv});
  while (cells.next()) {
    const auto ranks = parse_double(any_of(cells, worlds));
    const auto size = parse_double(any_of(cells, sizes));
    const auto time = parse_double(any_of(cells, times));
    if (!ranks || !size || !time) return bad(origin, cells.line(), "the rank count, size or time is not a number");
    const std::optional<Collective> kind = parse_collective(any_of(cells, kinds));
    if (!kind || *size == 0) continue;
    CollectiveRow row;
    row.tag = std::string(any_of(cells, {"tag"sv, "system"sv}));
    row.kind = *kind;
    row.ranks = *ranks >= 0 && *ranks <= 1 << 30 ? static_cast<int>(*ranks) : -1;
    const auto per_node = parse_double(any_of(cells, {"ranks_per_node"sv, "gpus_per_node"sv}));
    row.ranks_per_node = static_cast<int>(std::clamp(per_node.value_or(0), 0.0, 1e6));
    row.channels = channels_of(parse_double(any_of(cells, {"channels"sv})).value_or(0));
    row.bytes = whole_bytes(*kind, mebibytes ? *size * kMiB : *size, row.ranks, mebibytes);
    row.ms = milliseconds ? *time : *time * 1e-3;
    if (Status ok = check(row, origin, cells.line()); !ok) return tl::unexpected<Error>(ok.error());
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!(line = trimmed(line)).empty()) {
    std::size_t end = 0;
    while (end < line.size() && std::isspace(static_cast<unsigned char>(line[end])) == 0) ++end;
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

// A line of results: size count type [redop] [root] time algbw busbw #wrong time algbw busbw #wrong. What ran follows from
// the name it prints, else from the ratio of bus to algorithm bandwidth.
Result<std::vector<CollectiveRow>> read_nccl_tests(std::string_view text, const std::string& origin) {
  std::vector<CollectiveRow> rows;
  int ranks = 0;
  std::set<std::string_view> hosts;
  std::optional<Collective> named;
  std::size_t n = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++n;
    const std::vector<std::string_view> w = words_of(line);
    if (w.empty()) continue;
    if (w[0].starts_with('#')) {
      for (std::size_t i = 0; i + 1 < w.size(); ++i) {
        // "#  Rank  0 Group  0 Pid 1234 on node-a device  0 [0x00] NVIDIA H100"
        if (w[i] == "Rank" && parse_double(w[i + 1])) {
          ranks = std::max(ranks, static_cast<int>(std::clamp(*parse_double(w[i + 1]), 0.0, 1e6)) + 1);
          const auto on = std::find(w.begin(), w.end(), "on");
          if (on != w.end() && on + 1 != w.end()) hosts.insert(*(on + 1));
        }
        if (w[i] == "starting:") named = parse_collective(w[i + 1]);
      }
      continue;
    }
    const auto size = parse_double(w[0]);
    if (!size || w.size() < 8 || !parse_double(w[1])) {
      if (const auto kind =
              parse_collective(w[0].substr(w[0].rfind('/') == std::string_view::npos ? 0 : w[0].rfind('/') + 1))) {
        named = kind;  // the command line was kept in the log
      }
      continue;
    }
    // The first three numbers behind the type, redop and root columns are time, algbw, busbw.
    std::size_t at = 3;
    if (!parse_double(w[at])) ++at;  // redop
    if (w.size() > at + 3 && w[at].find('.') == std::string_view::npos && parse_double(w[at]).value_or(-2) <= 65536 &&
        parse_double(w[at + 1]) && parse_double(w[at + 2]) && parse_double(w[at + 3]) && w.size() - at >= 5) {
      ++at;  // root
    }
    if (at + 2 >= w.size()) return bad(origin, n, "a line of results without time and bandwidths");
    const auto time = parse_double(w[at]);
    const auto algbw = parse_double(w[at + 1]);
    const auto busbw = parse_double(w[at + 2]);
    if (!time || !algbw || !busbw) return bad(origin, n, "a line of results without time and bandwidths");
    if (*size == 0) continue;
    CollectiveRow row;
    row.ranks = ranks;
    row.ranks_per_node = hosts.empty() ? 0 : ranks / static_cast<int>(hosts.size());
    row.bytes = *size;
    row.ms = *time * 1e-3;
    const double ratio = *algbw > 0 ? *busbw / *algbw : 0;
    if (named) {
      row.kind = *named;
    } else if (w[3] == "sum" || w[3] == "avg" || w[3] == "prod" || w[3] == "max" || w[3] == "min") {
      row.kind = ratio > 1.0 - 1e-9 && ranks >= 2 ? Collective::kAllReduce : Collective::kReduceScatter;
    } else {
      row.kind = Collective::kAllGather;
    }
    // Beyond 4,000 ranks the rounding of the two bandwidths leaves nothing that shows how many.
    if (ranks == 0 && row.kind == Collective::kAllReduce && ratio > 0 && ratio < 1.9995) {
      row.ranks = static_cast<int>(std::lround(2 / (2 - ratio)));  // 2(n-1)/n = ratio
    }
    if (row.ranks == 0) {
      return bad(origin, n, "the number of ranks is not in the file: keep the lines '#  Rank  0 …' of nccl-tests");
    }
    if (Status ok = check(row, origin, n); !ok) return tl::unexpected<Error>(ok.error());
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::string_view to_string(Collective collective) {
  constexpr std::array<std::string_view, kCollectives> kNames = {"all-reduce", "all-gather", "reduce-scatter",
                                                                 "broadcast",  "reduce",     "all-to-all",
                                                                 "send/recv",  "gather",     "scatter"};
  return kNames[static_cast<std::size_t>(collective)];
}

namespace {

// As they are spelled once only small letters and digits count. Longer names first: "allreduce" contains "reduce".
constexpr std::pair<std::string_view, Collective> kNames[] = {{"reducescatter", Collective::kReduceScatter},
                                                              {"allreduce", Collective::kAllReduce},
                                                              {"allgather", Collective::kAllGather},
                                                              {"broadcast", Collective::kBroadcast},
                                                              {"alltoall", Collective::kAllToAll},
                                                              {"sendrecv", Collective::kSendRecv},
                                                              {"scatter", Collective::kScatter},
                                                              {"gather", Collective::kGather},
                                                              {"reduce", Collective::kReduce},
                                                              {"bcast", Collective::kBroadcast},
                                                              {"p2p", Collective::kSendRecv}};

}  // namespace

std::optional<Collective> parse_collective(std::string_view text) {
  std::string key;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  if (key.ends_with("perf")) key.resize(key.size() - 4);
  for (const auto& [name, kind] : kNames) {
    if (key == name) return kind;
  }
  return std::nullopt;
}

std::optional<Collective> collective_in(std::string_view letters) {
  for (const auto& [name, kind] : kNames) {
    if (letters.find(name) != std::string_view::npos) return kind;
  }
  return std::nullopt;
}

Result<std::vector<CollectiveRow>> read_collectives(std::string_view text, const std::string& origin,
                                                    const std::optional<std::string>& tag) {
  const std::string_view body = trimmed(text);
  if (body.empty()) return bad(origin, 0, "the file of collectives is empty");
  const std::string_view first = body.substr(0, body.find('\n'));
  const bool csv = body.front() != '#' && first.find(',') != std::string_view::npos &&
                   (first.find("ms") != std::string_view::npos || first.find("us") != std::string_view::npos);
  Result<std::vector<CollectiveRow>> all = body.front() == '{' ? read_json_lines(text, origin)
                                           : csv               ? read_csv(body, origin)
                                                               : read_nccl_tests(text, origin);
  if (!all) return all;
  if (all->empty()) return bad(origin, 0, "no measured collective in the file");
  std::set<std::string> tags;
  for (const CollectiveRow& row : *all) tags.insert(row.tag);
  std::string listed;
  for (const std::string& t : tags) listed += (listed.empty() ? "" : ", ") + t;
  if (tag) {
    std::erase_if(*all, [&](const CollectiveRow& row) { return row.tag != *tag; });
    if (all->empty()) {
      return fail(ErrorCode::kUsage, fmt::format("{} has no measurement with the tag '{}'", origin, *tag),
                  "tags in the file: " + listed);
    }
  } else if (tags.size() > 1) {
    return fail(ErrorCode::kUsage, fmt::format("{} holds measurements of {} set-ups", origin, tags.size()),
                "pick one with --collectives-tag: " + listed);
  }
  return all;
}

Result<std::vector<CollectiveRow>> load_collectives(const std::string& path, const std::optional<std::string>& tag) {
  FORETRACE_TRY(const std::string text, read_file(path));
  return read_collectives(text, path, tag);
}

}  // namespace foretrace::hardware
