#include "ranks/process_groups.hpp"

#include <simdjson.h>

#include <charconv>
#include <numeric>

namespace foretrace::ranks {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

namespace {

std::string text(const object& group, std::string_view key) {
  std::string_view value;
  return group[key].get(value) == simdjson::SUCCESS ? std::string(value) : std::string();
}

}  // namespace

std::map<std::string, ProcessGroup, std::less<>> process_groups(const trace::Trace& trace) {
  std::map<std::string, ProcessGroup, std::less<>> out;
  const std::string_view raw = trace.metadata_value("distributedInfo");
  simdjson::dom::parser parser;
  array groups;
  if (raw.empty() || parser.parse(raw.data(), raw.size())["pg_config"].get(groups) != simdjson::SUCCESS) return out;
  for (const element entry : groups) {
    object group;
    if (entry.get(group) != simdjson::SUCCESS) continue;
    ProcessGroup& one = out[text(group, "pg_name")];
    one.description = text(group, "pg_desc");
    if (one.description == "undefined") one.description.clear();  // what PyTorch writes for a group without one
    array ranks;
    if (group["ranks"].get(ranks) == simdjson::SUCCESS) {
      for (const element r : ranks) {
        std::int64_t rank = 0;
        if (r.get(rank) == simdjson::SUCCESS) one.ranks.push_back(rank);
      }
    }
    // PyTorch leaves out the list of a group of all ranks.
    std::int64_t size = 0;
    constexpr std::int64_t kMostRanks = 1'000'000;  // a damaged file may claim any size
    if (one.ranks.empty() && group["pg_size"].get(size) == simdjson::SUCCESS && size == trace.distributed.world_size &&
        size > 0 && size <= kMostRanks) {
      one.ranks.resize(static_cast<std::size_t>(size));
      std::iota(one.ranks.begin(), one.ranks.end(), 0);
    }
  }
  return out;
}

std::vector<std::int64_t> listed_ranks(std::string_view text) {
  std::vector<std::int64_t> out;
  if (text.find("...") != std::string_view::npos) return out;
  for (std::size_t at = text.find_first_of("0123456789"); at < text.size(); at = text.find_first_of("0123456789", at)) {
    std::int64_t rank = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), rank);
    if (error != std::errc{}) return {};
    at = static_cast<std::size_t>(end - text.data());
    out.push_back(rank);
  }
  return out;
}

}  // namespace foretrace::ranks
