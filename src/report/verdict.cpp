#include "report/verdict.hpp"

#include <fmt/format.h>

#include "report/text_table.hpp"

namespace foretrace::report {

namespace {

std::string bound_words(const simulate::Bottleneck& bottleneck) {
  const std::string sentence = bottleneck.sentence();
  return sentence.substr(0, sentence.find(':'));
}

}  // namespace

std::string with_profiler(const analysis::StepVerdict& verdict, const std::string& traced_ms, bool cold) {
  std::string out =
      fmt::format("with the profiler, {}: {} ms", cold ? "without the start-up work" : "as traced", traced_ms);
  if (verdict.traced.by != verdict.unprofiled.by) out += ", " + bound_words(verdict.traced);
  return out;
}

std::string verdict_text(const analysis::StepVerdict& verdict, const std::string& traced_ms, bool cold,
                         const TextStyle& style, std::size_t indent) {
  return text_line(verdict.unprofiled.sentence(), style, indent) +
         text_line(with_profiler(verdict, traced_ms, cold), style, indent);
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
  return one ? text_line(one->sentence(), style, indent) : std::string();
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
