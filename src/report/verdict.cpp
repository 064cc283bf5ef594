#include "report/verdict.hpp"

#include <fmt/format.h>

#include "base/readable.hpp"

namespace foretrace::report {

namespace {

std::string line(const std::string& text, const TextStyle& style, std::size_t indent) {
  return std::string(indent, ' ') + wrap(text, style.width, indent + 2, indent) + "\n";
}

}  // namespace

std::string verdict_text(const analysis::StepVerdict& verdict, const TextStyle& style, std::size_t indent) {
  std::string out = line(verdict.unprofiled.sentence(), style, indent);
  if (verdict.traced.by != verdict.unprofiled.by) {
    const std::string traced = verdict.traced.sentence();
    out += line("as traced, with the profiler: " + traced.substr(0, traced.find(':')), style, indent);
  }
  return out;
}

void write_verdict(JsonWriter& json, const analysis::StepVerdict& verdict) {
  const simulate::Bottleneck& b = verdict.unprofiled;
  json.member("bottleneck", verdict.traced.sentence()).member("unprofiled_bottleneck", b.sentence());
  json.member("bound_by", to_string(b.by)).member("traced_bound_by", to_string(verdict.traced.by));
  const auto percent = [](double share) { return 100 * simulate::Bottleneck::kSaving * share; };
  json.key("shortens_by_pct").begin_object();
  json.member("cpu", percent(b.cpu)).member("gpu", percent(b.gpu)).member("communication", percent(b.communication));
  json.member("loading", percent(b.loading)).member("other_ranks", percent(b.other_ranks));
  json.member("all", percent(b.all)).end_object();
}

std::string one_rank_text(const std::optional<analysis::OneRank>& one, const TextStyle& style, std::size_t indent) {
  return one ? line(one->sentence(), style, indent) : std::string();
}

void write_one_rank(JsonWriter& json, const std::optional<analysis::OneRank>& one) {
  json.key("one_rank");
  if (!one) {
    json.null();
    return;
  }
  json.begin_object().member("rank", one->rank).member("ranks", one->ranks).member("note", one->sentence());
  json.end_object();
}

}  // namespace foretrace::report
