#include "report/plan_reader.hpp"

#include <simdjson.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace foretrace::report {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

// The members of one object; what is absent, null or of another type is left as it is.
class Members {
 public:
  explicit Members(const object& o) : object_(o) {}

  void operator()(const char* key, std::string& to) const {
    std::string_view value;
    if (object_[key].get(value) == simdjson::SUCCESS) to = value;
  }
  void operator()(const char* key, double& to) const { number(key, to); }
  void operator()(const char* key, int& to) const { number(key, to); }
  void operator()(const char* key, std::int64_t& to) const { number(key, to); }
  template <class T>
  void operator()(const char* key, std::optional<T>& to) const {
    T value{};
    if (object_[key].get(value) == simdjson::SUCCESS) to = value;
  }
  // Times are written in milliseconds, to the nanosecond.
  void ms(const char* key, Ns& to) const {
    double value = 0;
    if (object_[key].get(value) == simdjson::SUCCESS) to = std::llround(value * 1e6);
  }
  template <class Visit>
  void each(const char* key, const Visit& visit) const {
    array values;
    if (object_[key].get(values) != simdjson::SUCCESS) return;
    for (const element value : values) visit(value);
  }
  template <class Visit>
  void inside(const char* key, const Visit& visit) const {
    object value;
    if (object_[key].get(value) == simdjson::SUCCESS) visit(Members(value));
  }

 private:
  template <class Number>
  void number(const char* key, Number& to) const {
    double value = 0;
    if (object_[key].get(value) == simdjson::SUCCESS) to = static_cast<Number>(value);
  }

  object object_;
};

plan::PlanRank rank_of(const Members& member) {
  plan::PlanRank out;
  member.each("stages", [&](const element& stage) {
    std::int64_t value = 0;
    if (stage.get(value) == simdjson::SUCCESS) out.stages.push_back(static_cast<int>(value));
  });
  member("blocks", out.blocks);
  member.ms("busy_ms", out.busy);
  member.ms("bubble_ms", out.bubble);
  member.ms("gradients_ms", out.gradients);
  member.ms("update_ms", out.update);
  member("in_flight", out.in_flight);
  member("states_bytes", out.states_bytes);
  member("activation_bytes", out.activation_bytes);
  member("peak_bytes", out.peak_bytes);
  return out;
}

Result<plan::PlanPrediction> prediction_of(const Members& member) {
  plan::PlanPrediction p;
  member("plan", p.text);
  FORETRACE_TRY(p.plan, plan::parse_plan(p.text));
  member("workers", p.workers);
  member("declined", p.declined);
  member.ms("ms", p.step);
  member.ms("low_ms", p.low);
  member.ms("high_ms", p.high);
  member("peak_bytes", p.peak_bytes);
  member("fits", p.fits);
  member.ms("bubble_ms", p.bubble);
  member.ms("exposed_comm_ms", p.exposed_communication);
  member("mfu", p.mfu);
  member("tokens_per_s", p.tokens_per_s);
  member("samples_per_s", p.samples_per_s);
  member("global_batch", p.global_batch);
  member("tokens", p.tokens);
  member("microbatches", p.microbatches);
  member("usd_per_million_tokens", p.usd_per_million_tokens);
  member.inside("exposed", [&](const Members& exposed) {
    exposed.ms("groups_ms", p.exposed_groups);
    exposed.ms("stages_ms", p.exposed_stages);
    exposed.ms("gradients_ms", p.exposed_gradients);
  });
  member.each("ranks", [&](const element& rank) {
    object value;
    if (rank.get(value) == simdjson::SUCCESS) p.ranks.push_back(rank_of(Members(value)));
  });
  member("origin", p.origin);
  member.each("not_modelled", [&](const element& note) {
    std::string_view text;
    if (note.get(text) == simdjson::SUCCESS) p.not_modelled.emplace_back(text);
  });
  return p;
}

}  // namespace

Result<std::vector<plan::PlanPrediction>> read_plans(std::string_view json) {
  simdjson::dom::parser parser;
  object root;
  if (parser.parse(simdjson::padded_string(json)).get(root) != simdjson::SUCCESS) {
    return fail(ErrorCode::kUnreadable, "the answer of another process is not a JSON object");
  }
  const Members members(root);
  std::optional<Error> error;
  members.inside("error", [&](const Members& of_error) {
    error.emplace();
    error->code = ErrorCode::kUsage;
    of_error("message", error->message);
    of_error("hint", error->hint);
  });
  if (error) return tl::unexpected<Error>(std::move(*error));
  std::vector<plan::PlanPrediction> out;
  Status status;
  members.each("predictions", [&](const element& prediction) {
    object value;
    if (!status || prediction.get(value) != simdjson::SUCCESS) return;
    Result<plan::PlanPrediction> one = prediction_of(Members(value));
    if (!one) {
      status = tl::unexpected(one.error());
    } else {
      out.push_back(std::move(*one));
    }
  });
  FORETRACE_TRY_VOID(std::move(status));
  return out;
}

}  // namespace foretrace::report
