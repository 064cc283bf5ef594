#include "hardware/laws.hpp"

#include <array>
#include <cmath>

#include "base/csv.hpp"
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
    {"concurrency", &RecurrentWeights::concurrency},
    {"weights", &RecurrentWeights::weights},
    {"samples", &RecurrentWeights::samples},
    {"begin", &RecurrentWeights::begin},
}};
constexpr std::array<Field<StreamingWeights>, 21> kStreaming = {{
    {"start", &StreamingWeights::start},
    {"handled", &StreamingWeights::handled},
    {"share", &StreamingWeights::share},
    {"overlap", &StreamingWeights::overlap},
    {"per_list", &StreamingWeights::per_list},
    {"block", &StreamingWeights::block},
    {"uneven", &StreamingWeights::uneven},
    {"alone", &StreamingWeights::alone},
    {"loop_factor", &StreamingWeights::loop_factor},
    {"short_spread", &StreamingWeights::short_spread},
    {"spread", &StreamingWeights::spread},
    {"short_us", &StreamingWeights::short_us},
    {"sharp", &StreamingWeights::sharp},
    {"slack", &StreamingWeights::slack},
    {"intensity", &StreamingWeights::intensity},
    {"reach", &StreamingWeights::reach},
    {"l2_rate", &StreamingWeights::l2_rate},
    {"fastest", &StreamingWeights::fastest},
    {"step", &StreamingWeights::step},
    {"beyond_narrow", &StreamingWeights::beyond_narrow},
    {"plane", &StreamingWeights::plane},
}};

template <class Weights, std::size_t N>
bool set_one(ParameterSets<Weights>& sets, const std::array<Field<Weights>, N>& fields, const CsvReader& row,
             std::string_view device, double value) {
  for (const auto& [name, field] : fields) {
    if (name != row["parameter"]) continue;
    sets.at(row["kind"], row["architecture"], device).*field = value;
    return true;
  }
  return false;
}

}  // namespace

Result<Laws> Laws::parse(std::string_view csv, const std::string& origin, Laws base, std::string_view device) {
  Laws laws = std::move(base);
  for (CsvReader row(csv); row.next();) {
    const auto wrong = [&](std::string_view what) { return row.error(what, origin, "written by tools/fit_laws.py"); };
    if (row.cells().size() != 5) return wrong("not a law, a kind, an architecture, a parameter and its value");
    const std::optional<double> value = row.number("value");
    if (!value || !std::isfinite(*value)) return wrong("a value is no number");
    const std::string_view law = row["law"];
    const bool known = law == "attention" ? set_one(laws.attention_, kAttention, row, device, *value)
                       : law == "recurrent"
                           ? set_one(laws.recurrent_, kRecurrent, row, device, *value)
                           : law == "streaming" && set_one(laws.streaming_, kStreaming, row, device, *value);
    if (!known) return wrong("an unknown law or parameter");
  }
  return laws;
}

Laws Laws::read(const DataFiles& files) {
  Laws all(files);
  for (const DataFile& file : files.in("hardware/laws")) {
    Result<Laws> parsed = parse(file.text, std::string(file.path), std::move(all), device_of(file, files));
    FORETRACE_CHECK(parsed.has_value());  // a test reads them
    all = std::move(*parsed);
  }
  return all;
}

const Laws& Laws::shipped() {
  static const Laws kShipped = read(DataFiles::shipped());
  return kShipped;
}

}  // namespace foretrace::hardware
