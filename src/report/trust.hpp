#pragma once
// What a prediction says about itself in JSON, alike in every report that holds one.

#include "foretrace/whatif/whatif.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

/// "origin", "validated", "measured_rows", "measured_models", "not_modelled".
inline JsonWriter& write_trust(JsonWriter& json, const whatif::Prediction& p) {
  return json.member("origin", p.origin)
      .member("validated", p.validated)
      .member("measured_rows", p.evidence.rows)
      .member("measured_models", p.evidence.models)
      .member("not_modelled", p.not_modelled);
}

}  // namespace foretrace::report
