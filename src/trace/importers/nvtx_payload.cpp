#include "trace/importers/nvtx_payload.hpp"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/decimal.hpp"

namespace foretrace::trace {

namespace {

constexpr std::size_t kWord = 8;
constexpr std::size_t kHeader = 4 * kWord;

// NVTX_PAYLOAD_ENTRY_TYPE_*, those that are whole numbers, as Linux on 64 bits lays them out.
struct Width {
  std::size_t bytes;
  bool sign;
};
std::optional<Width> width_of(std::int64_t type) {
  // Pairs of a signed and an unsigned type: char, short, int, long, long long, int8, int16, int32, int64.
  constexpr std::array<std::size_t, 9> kBytes = {1, 2, 4, 8, 8, 1, 2, 4, 8};
  constexpr std::int64_t kSize = 22;
  if (type == kSize) return Width{8, false};
  if (type < 1 || type > 2 * static_cast<std::int64_t>(kBytes.size())) return std::nullopt;
  return Width{kBytes[static_cast<std::size_t>(type - 1) / 2], type % 2 == 1};
}

std::uint64_t word_at(std::string_view bytes, std::size_t at, std::size_t width = kWord) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

std::string from_digits(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::string out;
  if (text.size() % 2 != 0) return out;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    const int high = digit_of(text[i]);
    const int low = digit_of(text[i + 1]);
    if (high < 0 || low < 0) return {};
    out += static_cast<char>(high * 16 + low);
  }
  return out;
}

// Numbers of an object and of those inside it; texts that are numbers count.
void collect(const simdjson::dom::element& value, const std::string& name, int depth, NvtxPayloads::Values& out) {
  constexpr int kDeepest = 8;
  simdjson::dom::object object;
  simdjson::dom::array list;
  std::int64_t number = 0;
  std::uint64_t large = 0;
  std::string_view text;
  if (value.get(object) == simdjson::SUCCESS) {
    for (const auto field : object) {
      if (depth < kDeepest) collect(field.value, std::string(field.key), depth + 1, out);
    }
  } else if (value.get(list) == simdjson::SUCCESS) {
    for (const simdjson::dom::element item : list) {
      if (depth < kDeepest) collect(item, name, depth + 1, out);
    }
  } else if (value.get(number) == simdjson::SUCCESS) {
    out.try_emplace(name, number);
  } else if (value.get(large) == simdjson::SUCCESS) {
    out.try_emplace(name, static_cast<std::int64_t>(large));
  } else if (value.get(text) == simdjson::SUCCESS) {
    if (const auto parsed = parse_int64(text)) out.try_emplace(name, *parsed);
  }
}

}  // namespace

void NvtxPayloads::add_field(std::int64_t domain, std::int64_t schema, NvtxField field) {
  std::vector<NvtxField>& fields = schemas_[{domain, schema}];
  // A file of several processes repeats the schemas of each.
  const auto same = [&](const NvtxField& f) { return f.name == field.name; };
  if (std::none_of(fields.begin(), fields.end(), same)) fields.push_back(std::move(field));
}

NvtxPayloads::Values NvtxPayloads::values(std::string_view bytes, std::string_view json) const {
  Values out = of_bytes(bytes);
  if (out.empty() && !bytes.empty() && digit_of(bytes[0]) >= 0) out = of_bytes(from_digits(bytes));
  if (!out.empty() || json.empty()) return out;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (parser.parse(json.data(), json.size()).get(root) == simdjson::SUCCESS) collect(root, "", 0, out);
  return out;
}

NvtxPayloads::Values NvtxPayloads::of_bytes(std::string_view bytes) const {
  Values out;
  if (bytes.size() < kHeader) return out;
  const auto schema =
      schemas_.find({static_cast<std::int64_t>(word_at(bytes, 0)), static_cast<std::int64_t>(word_at(bytes, kWord))});
  const std::uint64_t size = word_at(bytes, 2 * kWord);
  if (schema == schemas_.end() || size > bytes.size() - kHeader) return out;
  for (const NvtxField& field : schema->second) {
    const std::optional<Width> width = width_of(field.type);
    if (!width || field.offset < 0 || static_cast<std::uint64_t>(field.offset) > size ||
        width->bytes > size - static_cast<std::uint64_t>(field.offset)) {
      continue;
    }
    const std::uint64_t raw = word_at(bytes, kHeader + static_cast<std::size_t>(field.offset), width->bytes);
    const auto unused = static_cast<unsigned>(8 * (kWord - width->bytes));
    const auto high = static_cast<std::int64_t>(raw << unused);
    out[field.name] = width->sign ? high >> unused : static_cast<std::int64_t>(raw);
  }
  return out;
}

}  // namespace foretrace::trace
