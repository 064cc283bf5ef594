#include "cli/verbs.hpp"
#include "foretrace/trace/load.hpp"
#include "report/json_writer.hpp"
#include "report/text_table.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> list_formats(const Request& request) {
  Answer answer;
  if (request.json) {
    report::JsonWriter json(answer.body);
    json.begin_object().member("schema", 1).key("formats").begin_array();
    for (const trace::FormatInfo& format : trace::formats()) {
      json.begin_object().member("name", format.name).member("about", format.about);
      json.member("extensions", format.extensions).end_object();
    }
    json.end_array().end_object();
    answer.body += "\n";
    return answer;
  }
  using report::Align;
  report::TextTable table({{"format", Align::kLeft}, {"what", Align::kLeft, true}, {"files", Align::kLeft}}, 0);
  for (const trace::FormatInfo& format : trace::formats()) table.row({format.name, format.about, format.extensions});
  answer.body = table.render(request.style);
  return answer;
}

struct Listing {
  const char* name;
  Result<Answer> (*run)(const Request&);
};
// One line for each thing that can be listed.
constexpr Listing kListings[] = {{"formats", list_formats}};

Result<Answer> run_list(const Request& request) {
  for (const Listing& listing : kListings) {
    if (request.values.argument("WHAT").front() == listing.name) return listing.run(request);
  }
  return fail(ErrorCode::kInternal, "an allowed name has no listing");
}

}  // namespace

const Verb& list_verb() {
  static const Verb self = [] {
    Verb verb{.name = "list",
              .about = "what this build knows",
              .details = "",
              .arguments = {{"WHAT", "one of", 1, 1, {}}},
              .options = {},
              .examples = {{"foretrace list formats", "the trace formats it reads"}},
              .reads_traces = false,
              .picks_step = false,
              .run = run_list};
    for (const Listing& listing : kListings) verb.arguments[0].choices.emplace_back(listing.name);
    return verb;
  }();
  return self;
}

}  // namespace foretrace::cli
