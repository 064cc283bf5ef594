#include "hardware/laws.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>
#include <vector>

#include "base/data_files.hpp"
#include "base/decimal.hpp"
#include "base/text.hpp"
#include "hardware/cost_product.hpp"

namespace foretrace::hardware {

namespace {

template <class Weights>
using Field = std::pair<std::string_view, double Weights::*>;

constexpr std::array<Field<AttentionWeights>, 17> kAttention = {{
    {"rows", &AttentionWeights::rows},
    {"columns", &AttentionWeights::columns},
    {"start", &AttentionWeights::start},
    {"share", &AttentionWeights::share},
    {"soft", &AttentionWeights::soft},
    {"drop", &AttentionWeights::drop},
    {"fill", &AttentionWeights::fill},
    {"load", &AttentionWeights::load},
    {"pad_rows", &AttentionWeights::pad_rows},
    {"pad_columns", &AttentionWeights::pad_columns},
    {"pad_size", &AttentionWeights::pad_size},
    {"wide", &AttentionWeights::wide},
    {"round", &AttentionWeights::round},
    {"cache", &AttentionWeights::cache},
    {"sharp", &AttentionWeights::sharp},
    {"memory", &AttentionWeights::memory},
    {"blend", &AttentionWeights::blend},
}};
constexpr std::array<Field<RecurrentWeights>, 10> kRecurrent = {{
    {"start", &RecurrentWeights::start},
    {"product", &RecurrentWeights::product},
    {"recurrent", &RecurrentWeights::recurrent},
    {"cell", &RecurrentWeights::cell},
    {"move", &RecurrentWeights::move},
    {"tail", &RecurrentWeights::tail},
    {"beside", &RecurrentWeights::beside},
    {"weights", &RecurrentWeights::weights},
    {"samples", &RecurrentWeights::samples},
    {"begin", &RecurrentWeights::begin},
}};
constexpr std::array<Field<StreamingWeights>, 17> kStreaming = {{
    {"start", &StreamingWeights::start},
    {"handled", &StreamingWeights::handled},
    {"share", &StreamingWeights::share},
    {"overlap", &StreamingWeights::overlap},
    {"per_list", &StreamingWeights::per_list},
    {"block", &StreamingWeights::block},
    {"uneven", &StreamingWeights::uneven},
    {"alone", &StreamingWeights::alone},
    {"beside", &StreamingWeights::beside},
    {"short_spread", &StreamingWeights::short_spread},
    {"spread", &StreamingWeights::spread},
    {"short_us", &StreamingWeights::short_us},
    {"sharp", &StreamingWeights::sharp},
    {"slack", &StreamingWeights::slack},
    {"fastest", &StreamingWeights::fastest},
    {"step", &StreamingWeights::step},
    {"beyond_narrow", &StreamingWeights::beyond_narrow},
}};

template <class Sets, class Fields>
bool set_one(Sets& sets, const Fields& fields, const std::vector<std::string_view>& cells, double value) {
  for (const auto& [name, field] : fields) {
    if (name != cells[3]) continue;
    sets[std::string(cells[1])][std::string(cells[2])].*field = value;
    return true;
  }
  return false;
}

template <class Sets>
auto find(const Sets& sets, std::string_view kind, const Device& d) -> decltype(&sets.begin()->second.begin()->second) {
  const auto of_kind = sets.find(kind);
  if (of_kind == sets.end()) return nullptr;
  for (const std::string& name : {architecture(d), relative_of(d), std::string("any")}) {
    if (const auto it = of_kind->second.find(name); it != of_kind->second.end()) return &it->second;
  }
  return nullptr;
}

}  // namespace

Result<Laws> Laws::parse(std::string_view csv, const std::string& origin, Laws base) {
  Laws laws = std::move(base);
  std::size_t line_number = 0;
  for (const std::string_view line : split(csv, '\n')) {
    if (++line_number == 1 || line.empty() || line.front() == '#') continue;
    const auto wrong = [&](std::string_view what) {
      return tl::unexpected<Error>(Error{ErrorCode::kUnreadable, fmt::format("line {}: {}", line_number, what), origin,
                                         Error::kNoOffset, "written by tools/fit_laws.py"});
    };
    std::vector<std::string_view> cells = csv_fields(line);
    if (cells.size() != 5) return wrong("not a law, a kind, an architecture, a parameter and its value");
    const std::optional<double> value = parse_double(cells[4]);
    if (!value || !std::isfinite(*value)) return wrong("a value is no number");
    const bool known = cells[0] == "attention" ? set_one(laws.attention_, kAttention, cells, *value)
                       : cells[0] == "recurrent"
                           ? set_one(laws.recurrent_, kRecurrent, cells, *value)
                           : cells[0] == "streaming" && set_one(laws.streaming_, kStreaming, cells, *value);
    if (!known) return wrong("an unknown law or parameter");
  }
  return laws;
}

const Laws& Laws::shipped() {
  static const Laws kShipped = [] {
    Laws all;
    for (const DataFile& file : data_files_in("hardware/laws")) {
      const std::string_view stem = file.stem(), text = file.text;
      Result<Laws> parsed = parse(text, std::string(stem) + ".csv", std::move(all));
      FORETRACE_CHECK(parsed.has_value());  // a test reads them
      all = std::move(*parsed);
    }
    return all;
  }();
  return kShipped;
}

const AttentionWeights* Laws::attention(std::string_view kind, const Device& d) const {
  return find(attention_, kind, d);
}
const AttentionWeights* Laws::attention(std::string_view kind, const Device& d, const Device& other) const {
  return attention(kind, architecture(d) == architecture(other) ? d : Device{});
}
const RecurrentWeights* Laws::recurrent(std::string_view kind, const Device& d) const {
  return find(recurrent_, kind, d);
}
const StreamingWeights* Laws::streaming(std::string_view kind, const Device& d) const {
  return find(streaming_, kind, d);
}

}  // namespace foretrace::hardware
