#include <fmt/format.h>

#include <algorithm>

#include "base/readable.hpp"
#include "cli/verbs.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "report/json_writer.hpp"
#include "report/text_table.hpp"
#include "whatif/model/evidence.hpp"

namespace foretrace::cli {
namespace {

using WhatIfs = std::vector<const whatif::WhatIf*>;

Result<WhatIfs> chosen(const Request& request) {
  const std::vector<std::string>& names = request.values.argument("NAME");
  if (names.empty()) return whatif::all_whatifs();
  WhatIfs found;
  for (const std::string& name : names) {
    FORETRACE_TRY(const whatif::WhatIf* const one, whatif::find_whatif(name));
    found.push_back(one);
  }
  return found;
}

// "26 rows, 21 models"; of jobs and schemes "8 rows, 3 models, 2 networks".
std::string validation(const whatif::WhatIf& w) {
  if (!w.definition.empty()) return "by definition";
  if (w.evidence.rows == 0) return "no";
  const auto count = [](int n, std::string_view what) { return plural(static_cast<std::uint64_t>(n), what); };
  std::string text = fmt::format("{}, {}", count(w.evidence.rows, "row"), count(w.evidence.models, "model"));
  const whatif::PastErrors* past = whatif::past_errors_of(w.name);
  if (past != nullptr && past->networks > 0) text += ", " + count(past->networks, "network");
  return text;
}

// Steps as they were predicted before their measurements were used, in percent.
std::string blind(const whatif::WhatIf& w) {
  const whatif::PastErrors* past = whatif::past_errors_of(w.name);
  return past == nullptr || !past->blind_pct ? "" : fmt::format("{:.1f} ({})", *past->blind_pct, past->blind_rows);
}

// Between the ranks of the measured jobs.
std::string networks(const whatif::WhatIf& w) {
  const whatif::PastErrors* past = whatif::past_errors_of(w.name);
  return past == nullptr || past->networks == 0 ? "" : std::to_string(past->networks);
}

// "2.6, worst 16.3": percent, of the steps that were measured.
std::string error(const whatif::WhatIf& w) {
  if (!w.definition.empty()) return "by definition";
  const whatif::PastErrors* past = whatif::past_errors_of(w.name);
  if (past == nullptr || !past->step_pct) return "";
  return fmt::format("{:.1f}, worst {:.1f}", *past->step_pct, past->worst_step_pct.value_or(0));
}

// Everything that is known of how far predictions were off.
std::string errors_in_full(const whatif::WhatIf& w) {
  if (!w.definition.empty()) return w.definition;
  const whatif::PastErrors* past = whatif::past_errors_of(w.name);
  if (past == nullptr) return "";
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
  const auto count = [](int rows) { return plural(static_cast<std::uint64_t>(rows), "row"); };
  if (past->step_pct) {
    add(fmt::format("step {:.1f} % on average over {}", *past->step_pct, count(past->rows)));
    add(fmt::format("{:.1f} % at worst ({})", past->worst_step_pct.value_or(0), past->worst_row));
  }
  if (past->gpu_pct) add(fmt::format("GPU time {:.1f} %", *past->gpu_pct));
  if (past->memory_pct) add(fmt::format("memory {:.1f} %", *past->memory_pct));
  if (past->unseen_pct)
    add(fmt::format("{} of networks that nothing was fitted on: {:.1f} %", count(past->unseen_rows),
                    *past->unseen_pct));
  if (past->blind_pct)
    add(fmt::format("{} predicted before their measurements were used: {:.1f} %", count(past->blind_rows),
                    *past->blind_pct));
  return text;
}

// "batch:x=", "amp[:dtype=]"; of more parameters than `most` only the first.
std::string written(const whatif::WhatIf& w, std::size_t most) {
  std::string use = w.name;
  for (std::size_t i = 0; i < std::min(w.parameters.size(), most); ++i) {
    const whatif::Parameter& p = w.parameters[i];
    use += fmt::format("{}{}{}={}", p.required ? "" : "[", i == 0 ? ":" : ",", p.name, p.required ? "" : "]");
  }
  if (w.parameters.size() > most) use += "[,…]";
  return use;
}

void write_json(report::JsonWriter& json, const WhatIfs& whatifs) {
  json.begin_object().member("schema", 1).key("whatifs").begin_array();
  for (const whatif::WhatIf* listed : whatifs) {
    const whatif::WhatIf& w = *listed;
    json.begin_object().member("name", w.name).member("about", w.about);
    json.key("parameters").begin_array();
    for (const whatif::Parameter& p : w.parameters) {
      json.begin_object().member("name", p.name).member("about", p.about).member("default", p.default_value);
      json.member("type", p.type == whatif::ParameterType::kNumber ? "number" : "text");
      json.member("required", p.required).member("choices", p.choices).end_object();
    }
    json.end_array().member("assumes", w.assumes).member("needs", to_string(w.needs)).member("source", w.source);
    json.member("not_modelled", w.not_modelled).member("validated", w.validated).member("code", w.code);
    json.member("measured_rows", w.evidence.rows).member("measured_models", w.evidence.models);
    if (!w.definition.empty()) json.member("by_definition", w.definition);
    if (const whatif::PastErrors* past = whatif::past_errors_of(w.name)) {
      json.member("step_error_pct", past->step_pct).member("worst_step_error_pct", past->worst_step_pct);
      json.member("worst_row", past->worst_row).member("gpu_error_pct", past->gpu_pct);
      json.member("memory_error_pct", past->memory_pct).member("unseen_rows", past->unseen_rows);
      json.member("unseen_step_error_pct", past->unseen_pct).member("networks", past->networks);
      json.member("blind_rows", past->blind_rows).member("blind_step_error_pct", past->blind_pct);
    }
    json.member("effort", to_string(w.effort)).member("advise", w.advise);
    json.member("changes", to_string(w.changes)).key("parts").begin_object();
    json.member("cpu", to_string(w.parts.cpu)).member("gpu", to_string(w.parts.gpu));
    json.member("memory", to_string(w.parts.memory)).end_object().end_object();
  }
  json.end_array().end_object();
}

std::string to_markdown(const WhatIfs& whatifs) {
  const auto cell = [](std::string text) {
    for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
    return text;
  };
  std::string out =
      "| what-if | what | changes | needs | source | measured | error % | blind % (rows) "
      "|\n|---|---|---|---|---|---|---|---|\n";
  for (const whatif::WhatIf* w : whatifs) {
    out +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} |\n", written(*w, w->parameters.size()), cell(w->about),
                    to_string(w->changes), to_string(w->needs), cell(w->source), validation(*w), error(*w), blind(*w));
  }
  return out;
}

std::string in_full(const whatif::WhatIf& w, const report::TextStyle& style) {
  constexpr std::size_t kIndent = 17;
  std::string out =
      fmt::format("{}\n  {}\n\n", written(w, w.parameters.size()), wrap(printable(w.about), style.width, 2, 2));
  const auto entry = [&](std::string_view label, const std::string& text) {
    if (text.empty()) return;
    out += fmt::format("  {:<14} {}\n", label, wrap(printable(text), style.width, kIndent, kIndent));
  };
  for (const whatif::Parameter& p : w.parameters) {
    std::string text = p.about;
    const auto add = [&](const std::string& more) { text += (text.empty() ? "" : "; ") + more; };
    if (!p.choices.empty()) add(fmt::format("one of {}", fmt::join(p.choices, ", ")));
    if (p.required) add("required");
    if (!p.default_value.empty()) add("default " + p.default_value);
    entry(p.name + "=", text.empty() ? "no description" : text);
  }
  entry("assumes", w.assumes);
  entry("needs", to_string(w.needs));
  entry("changes", std::string(to_string(w.changes)));
  entry("models", fmt::format("CPU {}, GPU {}, memory {}", to_string(w.parts.cpu), to_string(w.parts.gpu),
                              to_string(w.parts.memory)));
  entry("not modelled", w.not_modelled);
  entry("source", w.source);
  entry("in PyTorch", w.code.empty() ? w.code : fmt::format("{}  ({})", w.code, to_string(w.effort)));
  entry("validated", validation(w));
  entry(w.definition.empty() ? "error" : "because", errors_in_full(w));
  return out;
}

}  // namespace

Result<Answer> list_whatifs(const Request& request) {
  FORETRACE_TRY(const WhatIfs whatifs, chosen(request));
  if (request.json) return Answer{report::json_text([&](report::JsonWriter& json) { write_json(json, whatifs); })};
  if (request.values.flag("markdown")) return Answer{to_markdown(whatifs)};
  Answer answer;
  if (!request.values.argument("NAME").empty()) {
    for (const whatif::WhatIf* w : whatifs)
      answer.body += (answer.body.empty() ? "" : "\n") + in_full(*w, request.style);
    return answer;
  }
  using report::Align;
  report::TextTable table({{"what-if", Align::kLeft},
                           {"what", Align::kLeft, false, true},
                           {"rows", Align::kRight},
                           {"models", Align::kRight},
                           {"networks", Align::kRight, false, false, 1},
                           {"error %", Align::kLeft},
                           {"blind % (rows)", Align::kLeft, false, false, 2}},
                          0);
  // Of many parameters the first two: --json and a NAME show them all.
  constexpr std::size_t kShown = 2;
  for (const whatif::WhatIf* w : whatifs) {
    table.row({written(*w, kShown), w->about, std::to_string(w->evidence.rows), std::to_string(w->evidence.models),
               networks(*w), error(*w), blind(*w)});
  }
  answer.body = table.render(request.style);
  return answer;
}

}  // namespace foretrace::cli
