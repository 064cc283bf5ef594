#include "trace/importers/chrome_pieces.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "trace/importers/json_text.hpp"

namespace foretrace::trace {

namespace {

constexpr std::size_t kPieceBytes = 256 * 1024;
constexpr std::size_t kHeadStep = 64 * 1024;
// Of one record, and of all metadata in front of the events. Real ones have kilobytes, and megabytes; what goes on longer is
// no trace (a few kilobytes of gzip hold gigabytes of blanks or brackets), and would only fill the memory.
constexpr std::size_t kLongestRecord = std::size_t{256} << 20;

// Keys an event may start with. "id" is left out: metadata such as deviceProperties starts records with it.
constexpr auto kFirstKeys = std::to_array<std::string_view>({"ph", "name", "cat", "pid", "tid", "ts", "args", "dur"});

// Whether text[at] == '{' opens an event behind a comma that follows a closed one; gives the position of that '}'.
std::size_t boundary_at(std::string_view text, std::size_t brace) {
  constexpr auto kNowhere = std::string_view::npos;
  std::size_t i = skip_space(text, brace + 1);
  if (i >= text.size() || text[i] != '"') return kNowhere;
  constexpr std::size_t kLongestKey = 4;
  const std::size_t quote = text.substr(0, i + 2 + kLongestKey).find('"', i + 1);
  if (quote == kNowhere) return kNowhere;
  const std::string_view key = text.substr(i + 1, quote - i - 1);
  if (std::find(kFirstKeys.begin(), kFirstKeys.end(), key) == kFirstKeys.end()) return kNowhere;
  i = skip_space(text, quote + 1);
  if (i >= text.size() || text[i] != ':') return kNowhere;
  std::size_t back = brace;
  while (back > 0 && is_json_space(text[back - 1])) --back;
  if (back == 0 || text[back - 1] != ',') return kNowhere;
  --back;
  while (back > 0 && is_json_space(text[back - 1])) --back;
  return back > 0 && text[back - 1] == '}' ? back - 1 : kNowhere;
}

// The last '}' at depth zero that a comma follows, counting brackets from the start of text.
std::size_t last_exact_boundary(std::string_view text) {
  std::size_t found = std::string_view::npos;
  for (std::size_t at = skip_space(text, 0); at < text.size();) {
    const std::size_t end = skip_value(text, at);
    if (end == kIncomplete) break;
    const std::size_t comma = skip_space(text, end);
    if (comma >= text.size() || text[comma] != ',') break;
    found = end - 1;
    at = skip_space(text, comma + 1);
  }
  return found;
}

constexpr std::string_view kHead = "what stands in front of the first event";

// Why text that has not come to an end is not read further; nothing when it may go on.
std::optional<Error> no_trace(std::string_view what, std::string_view text, std::size_t longest) {
  const auto because = [&](std::string why) {
    return Error{ErrorCode::kUnreadable,
                 fmt::format("{} {}", what, why),
                 {},
                 Error::kNoOffset,
                 "no profiler writes such a trace: is the file damaged, or something else?"};
  };
  if (nested_too_deep(text)) return because("nests brackets more than 1,024 deep");
  if (text.size() >= longest) return because(fmt::format("is longer than {} MiB", longest >> 20));
  return std::nullopt;
}

}  // namespace

std::size_t last_boundary(std::string_view text) {
  for (std::size_t at = text.rfind('{'); at != std::string_view::npos && at > 0; at = text.rfind('{', at - 1)) {
    const std::size_t found = boundary_at(text, at);
    if (found != std::string_view::npos) return found;
  }
  return std::string_view::npos;
}

std::size_t first_boundary(std::string_view text, std::size_t from) {
  for (std::size_t at = text.find('{', from); at != std::string_view::npos; at = text.find('{', at + 1)) {
    const std::size_t found = boundary_at(text, at);
    if (found != std::string_view::npos && found >= from) return found;
  }
  return std::string_view::npos;
}

TopLevelScan scan_top_level(std::string_view text, std::size_t at,
                            std::vector<std::pair<std::string, std::string>>& pairs) {
  using Stop = TopLevelScan::Stop;
  while (true) {
    const std::size_t pair_start = at;
    at = skip_space(text, at);
    if (at < text.size() && text[at] == ',') at = skip_space(text, at + 1);
    if (at >= text.size()) return {Stop::kNeedMore, pair_start};
    if (text[at] == '}') return {Stop::kEnd, at};
    if (text[at] != '"') return {Stop::kMalformed, at};
    const std::size_t key_end = skip_value(text, at);
    if (key_end == kIncomplete) return {Stop::kNeedMore, pair_start};
    std::string key = unescape(text.substr(at + 1, key_end - at - 2));
    at = skip_space(text, key_end);
    if (at >= text.size()) return {Stop::kNeedMore, pair_start};
    if (text[at] != ':') return {Stop::kMalformed, at};
    at = skip_space(text, at + 1);
    if (at >= text.size()) return {Stop::kNeedMore, pair_start};
    if (key == "traceEvents") return {Stop::kEvents, at};
    const std::size_t value_end = skip_value(text, at);
    if (value_end == kIncomplete) return {Stop::kNeedMore, pair_start};
    pairs.emplace_back(std::move(key), std::string(text.substr(at, value_end - at)));
    at = value_end;
  }
}

std::size_t PieceReader::fill(char* out, std::size_t n) {
  if (at_end_) return 0;
  auto got = source_.read(out, n);
  if (!got) {
    error_ = std::move(got).error();
    failed_ = true;
    at_end_ = true;
    return 0;
  }
  if (*got < n) {
    // Short means the end or damage; the next read shows which.
    char probe = 0;
    auto more = source_.read(&probe, 1);
    if (more && *more == 1) {
      out[*got] = probe;
      return *got + 1;
    }
    if (!more) {
      error_ = std::move(more).error();
      failed_ = true;
    }
    at_end_ = true;
  }
  return *got;
}

Status PieceReader::read_head() {
  const auto more = [&] {
    const std::size_t old = carry_.size();
    if (auto error = no_trace(kHead, carry_, kLongestRecord)) {
      error_ = std::move(*error);
      failed_ = at_end_ = true;
      return false;
    }
    carry_.resize(std::min(old + std::max(kHeadStep, old), kLongestRecord));
    carry_.resize(old + fill(carry_.data() + old, carry_.size() - old));
    return carry_.size() > old;
  };
  more();
  if (carry_.starts_with("\xEF\xBB\xBF")) carry_.replace(0, 3, "   ");
  std::size_t at = skip_space(carry_, 0);
  while (at == carry_.size() && more()) at = skip_space(carry_, at);
  if (at == carry_.size()) {
    if (failed_) return tl::unexpected(error_);
    return fail(ErrorCode::kUnreadable, carry_.empty() ? "the file is empty" : "the file holds only white space",
                "the profiler may have been stopped before it wrote its trace");
  }
  if (carry_[at] == '[') {
    bare_array_ = true;
    ++at;
  } else if (carry_[at] == '{') {
    ++at;
    while (true) {
      const TopLevelScan scan = scan_top_level(carry_, at, head_);
      at = scan.at;
      if (scan.stop == TopLevelScan::Stop::kEvents) break;
      if (scan.stop == TopLevelScan::Stop::kNeedMore && more()) continue;
      Error error{ErrorCode::kUnreadable, {}, {}, static_cast<std::int64_t>(at), {}};
      if (failed_) {
        error = error_;
      } else if (scan.stop == TopLevelScan::Stop::kEnd) {
        const auto has = [&](std::string_view key) {
          return std::any_of(head_.begin(), head_.end(), [&](const auto& pair) { return pair.first == key; });
        };
        error.message = "there is no \"traceEvents\" in this JSON object";
        error.hint = "a PyTorch profiler trace has one; is this another tool's file?";
        if (has("schema") && has("nodes")) {
          error.message = "this is an execution trace: it names tensors, and not when anything ran";
          error.hint = "give the profiler's trace; \"out.et.json.gz\" next to \"out.json.gz\" is read with it";
        }
      } else if (scan.stop == TopLevelScan::Stop::kNeedMore) {
        error.message = "the JSON text ends before any event: the file is truncated";
        error.hint = "nothing of it can be used: copy or record it again";
      } else {
        error.message = "this is not valid JSON";
        error.hint = "a PyTorch profiler trace is one JSON object; was the file edited or joined with another?";
      }
      return tl::unexpected(std::move(error));
    }
    if (carry_[at] != '[') {
      return tl::unexpected(Error{ErrorCode::kUnreadable,
                                  "\"traceEvents\" is not an array",
                                  {},
                                  static_cast<std::int64_t>(at),
                                  "the file is not a trace in Chrome JSON form"});
    }
    ++at;
  } else {
    return tl::unexpected(Error{ErrorCode::kUnreadable,
                                "this is not JSON",
                                {},
                                static_cast<std::int64_t>(at),
                                "foretrace reads traces written by torch.profiler's export_chrome_trace"});
  }
  carry_.erase(0, at);
  offset_ = at;
  return {};
}

bool PieceReader::next(Piece& piece) {
  if (finished_) return false;
  piece.offset = offset_;
  piece.last = false;
  std::size_t wanted = std::max(kPieceBytes, carry_.size() + kPieceBytes / 4);
  const auto reserve = [&](std::size_t n) {
    if (piece.buffer.size() < n + simdjson::SIMDJSON_PADDING) piece.buffer.resize(n + simdjson::SIMDJSON_PADDING);
  };
  reserve(wanted);
  std::memcpy(piece.buffer.data(), carry_.data(), carry_.size());
  piece.length = carry_.size();
  while (true) {
    piece.length += fill(piece.buffer.data() + piece.length, wanted - piece.length);
    const std::string_view text = piece.text();
    if (at_end_) {
      carry_.clear();
      finished_ = true;
      piece.last = true;
      break;
    }
    const std::size_t brace = cut_ == Cut::kFast ? last_boundary(text) : last_exact_boundary(text);
    if (brace != std::string_view::npos) {
      const std::size_t rest = text.find(',', brace + 1) + 1;
      carry_.assign(text.substr(rest));
      piece.length = brace + 1;
      offset_ = piece.offset + rest;
      break;
    }
    if (auto error = no_trace("one event", text, kLongestRecord)) {
      error_ = std::move(*error);
      failed_ = at_end_ = finished_ = true;
      return false;
    }
    // One record fills the whole piece: make room for a larger one.
    wanted *= 2;
    reserve(wanted);
  }
  std::memset(piece.buffer.data() + piece.length, ' ', simdjson::SIMDJSON_PADDING);
  if (finished_) offset_ = piece.offset + piece.length;
  piece.sequence = sequence_++;
  return true;
}

}  // namespace foretrace::trace
