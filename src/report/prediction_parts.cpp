#include "report/prediction_parts.hpp"

#include <fmt/format.h>

#include "report/text.hpp"

namespace foretrace::report {

std::string headline(const std::string& file, const std::string& step, const std::string& device) {
  std::string out = fmt::format("{}, {}", printable(file), printable(step));
  if (!device.empty()) out += ", " + printable(device);
  return out;
}

std::string short_ms(Ns time) { return fmt::format("{:.2f}", to_ms(time)); }

std::string band(Ns low, Ns high) { return fmt::format("{:.2f} .. {:.2f}", to_ms(low), to_ms(high)); }

std::string times(double factor) { return fmt::format("{:.2f} x", factor); }

std::string gigabytes(std::optional<std::int64_t> bytes) {
  return bytes ? fmt::format("{:.2f} GB", static_cast<double>(*bytes) / 1e9) : "-";
}

void write_baseline(JsonWriter& json, const WhatIfReport& b) {
  json.member_ms("traced_ms", b.traced)
      .member_ms("period_ms", b.period)
      .member_ms("replayed_ms", b.replayed)
      .member_ms("unprofiled_ms", b.unprofiled);
  json.member_ms("unprofiled_low_ms", b.unprofiled_low).member_ms("unprofiled_high_ms", b.unprofiled_high);
  json.member_ms("measured_ms", b.measured).member("peak_bytes", b.peak_bytes);
}

}  // namespace foretrace::report
