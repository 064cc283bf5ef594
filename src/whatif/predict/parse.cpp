// Parses a use of a what-if: name, or name:key=value,key=value. Values with , : or = are quoted; lists use |.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/decimal.hpp"
#include "base/suggest.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "whatif/catalogue/also_written.hpp"
#include "whatif/predict/parse_use.hpp"

namespace foretrace::whatif {

const std::string& Parameters::text(std::string_view name) const {
  static const std::string kEmpty;
  const auto it = values_.find(name);
  return it == values_.end() ? kEmpty : it->second.first;
}

double Parameters::number(std::string_view name) const {
  const std::string& value = text(name);
  double result = 0;
  std::from_chars(value.data(), value.data() + value.size(), result);
  return result;
}

std::vector<std::string> Parameters::list(std::string_view name) const {
  std::vector<std::string> parts;
  const std::string& value = text(name);
  std::size_t from = 0;
  while (from <= value.size() && !value.empty()) {
    const std::size_t bar = value.find('|', from);
    parts.push_back(value.substr(from, bar == std::string::npos ? bar : bar - from));
    if (bar == std::string::npos) break;
    from = bar + 1;
  }
  return parts;
}

bool Parameters::given(std::string_view name) const {
  const auto it = values_.find(name);
  return it != values_.end() && it->second.second;
}

void Parameters::set(std::string name, std::string value, bool given) {
  values_[std::move(name)] = {std::move(value), given};
}

std::string_view to_string(Effort effort) {
  constexpr std::array<std::string_view, 3> kNames = {"one line", "a few lines", "work"};
  return kNames[static_cast<std::size_t>(effort)];
}

Result<const WhatIf*> find_whatif(std::string_view name) {
  const std::vector<const WhatIf*> all = all_whatifs();
  for (const WhatIf* w : all) {
    if (w->name == name) return w;
  }
  std::vector<std::string> names;
  for (const WhatIf* w : all) names.push_back(w->name);
  std::string hint = "`foretrace list whatifs` shows all";
  if (const auto near = closest_match(name, names)) hint = fmt::format("did you mean '{}'? {}", *near, hint);
  return fail(ErrorCode::kUsage, fmt::format("there is no what-if named '{}'", name), std::move(hint));
}

namespace {

struct Pair {
  std::string key, value;
};

Result<std::vector<Pair>> split_pairs(std::string_view text, std::string_view whole) {
  std::vector<Pair> pairs;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t equals = text.find('=', at);
    if (equals == std::string_view::npos) {
      return fail(ErrorCode::kUsage, fmt::format("'{}' in '{}' is not key=value", text.substr(at), whole),
                  "write name:key=value,key=value");
    }
    Pair pair{std::string(text.substr(at, equals - at)), {}};
    at = equals + 1;
    if (at < text.size() && (text[at] == '\'' || text[at] == '"')) {
      const std::size_t close = text.find(text[at], at + 1);
      if (close == std::string_view::npos) {
        return fail(ErrorCode::kUsage, fmt::format("a quote is not closed in '{}'", whole));
      }
      pair.value = std::string(text.substr(at + 1, close - at - 1));
      at = close + 1;
      if (at < text.size() && text[at] != ',') {
        return fail(ErrorCode::kUsage, fmt::format("a comma must follow the quoted value in '{}'", whole),
                    "write name:key='a,b',key=value");
      }
    } else {
      const std::size_t comma = text.find(',', at);
      pair.value = std::string(text.substr(at, comma == std::string_view::npos ? comma : comma - at));
      at = comma == std::string_view::npos ? text.size() : comma;
    }
    pairs.push_back(std::move(pair));
    if (at < text.size()) ++at;
  }
  return pairs;
}

tl::unexpected<Error> unknown_parameter(const WhatIf& whatif, const std::string& key) {
  std::vector<std::string> names;
  for (const Parameter& p : whatif.parameters) names.push_back(p.name);
  std::string hint = did_you_mean(key, names);
  if (!hint.empty()) hint += ' ';
  hint += names.empty() ? fmt::format("{} takes no parameters", whatif.name)
                        : fmt::format("{} takes: {}", whatif.name, fmt::join(names, ", "));
  return fail(ErrorCode::kUsage, fmt::format("{} has no parameter '{}'", whatif.name, key), std::move(hint));
}

// Of the catalogue's parameters. A step of nine seconds, so many times as long, is the longest time in 64-bit nanoseconds.
constexpr double kLargestNumber = 1e9;

Status check_value(const WhatIf& whatif, const Parameter& p, const std::string& value) {
  if (!p.choices.empty() && std::find(p.choices.begin(), p.choices.end(), value) == p.choices.end()) {
    std::string hint = did_you_mean(value, p.choices);
    if (!hint.empty()) hint += ' ';
    hint += fmt::format("one of: {}", fmt::join(p.choices, ", "));
    return fail(ErrorCode::kUsage, fmt::format("{}:{} cannot be '{}'", whatif.name, p.name, value), std::move(hint));
  }
  if (p.type == ParameterType::kNumber) {
    const std::optional<double> number = parse_double(value);
    if (number && std::isfinite(p.minimum) && *number > kLargestNumber) {
      return fail(ErrorCode::kUsage,
                  fmt::format("{}:{} must be at most {}, not '{}'", whatif.name, p.name, kLargestNumber, value),
                  fmt::format("{}: {}", p.name, p.about));
    }
    if (!number || *number <= p.minimum) {
      const std::string limit = std::isfinite(p.minimum) ? fmt::format(" greater than {}", p.minimum) : std::string();
      return fail(ErrorCode::kUsage,
                  fmt::format("{}:{} must be a number{}, not '{}'", whatif.name, p.name, limit, value),
                  fmt::format("{}: {}", p.name, p.about));
    }
  }
  if (p.check == nullptr) return {};
  Status checked = p.check(value);
  if (!checked && checked.error().hint.empty()) {
    checked.error().hint = fmt::format("{}:{}=…: {}", whatif.name, p.name, p.about);
  }
  return checked;
}

}  // namespace

Result<Use> parse_use(std::string_view written) {
  const std::string text = written_out(written);
  FORETRACE_TRY(const WhatIf* const whatif, find_whatif(std::string_view(text).substr(0, text.find(':'))));
  return parse_use_of(*whatif, text);
}

Result<Use> parse_use_of(const WhatIf& whatif, std::string_view text) {
  const std::size_t colon = text.find(':');
  Use use;
  use.whatif = &whatif;
  use.text = std::string(text);
  for (const Parameter& p : whatif.parameters) use.parameters.set(p.name, p.default_value, false);
  if (colon != std::string_view::npos) {
    FORETRACE_TRY(const std::vector<Pair> pairs, split_pairs(text.substr(colon + 1), text));
    for (const Pair& pair : pairs) {
      const auto it = std::find_if(whatif.parameters.begin(), whatif.parameters.end(),
                                   [&](const Parameter& p) { return p.name == pair.key; });
      if (it == whatif.parameters.end()) return unknown_parameter(whatif, pair.key);
      FORETRACE_TRY_VOID(check_value(whatif, *it, pair.value));
      use.parameters.set(pair.key, pair.value, true);
    }
  }
  for (const Parameter& p : whatif.parameters) {
    if (p.required && !use.parameters.given(p.name)) {
      return fail(ErrorCode::kUsage, fmt::format("{} needs {}=…", whatif.name, p.name),
                  fmt::format("{}: {}", p.name, p.about));
    }
  }
  if (whatif.check != nullptr) {
    FORETRACE_TRY_VOID(whatif.check(use.parameters));
  }
  return use;
}

}  // namespace foretrace::whatif
