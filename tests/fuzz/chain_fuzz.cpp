// The whole chain: a damaged trace, its graphs, every what-if, the simulation and the reports.
//
// The first byte says which reports and which stack of two what-ifs, the rest is a trace with one record per line. Bytes changed
// at random rarely leave a trace that holds a step, so records are what is changed (LLVMFuzzerCustomMutator): left out, doubled,
// swapped, given another's number or name. Nothing may crash, end in an unsound graph, or say "no" without a reason.

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/analysis/doctor.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"
#include "sweep/uses.hpp"
#include "whatif/predict/predictor.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using namespace foretrace;  // NOLINT(google-build-using-namespace): a program, not a header

void require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "chain_fuzz: %s\n", what.c_str());
  std::abort();
}

void judge(const whatif::Prediction& p) {
  if (!p.declined.empty()) {
    require(p.declined.find("not sound") == std::string::npos, p.whatif + ": " + p.declined);
    return;
  }
  require(p.step >= 0 && std::isfinite(p.speedup), p.whatif + ": a step without a length");
  require(p.high == 0 || (p.low <= p.step && p.step <= p.high), p.whatif + ": a band that leaves its middle out");
}

const std::vector<whatif::Use>& uses() {
  static const std::vector<whatif::Use> all = [] {
    std::vector<whatif::Use> parsed;
    for (const std::string& text : sweep::every_use()) parsed.push_back(sweep::parsed(text));
    return parsed;
  }();
  return all;
}

void run_chain(std::string_view bytes, std::uint8_t way) {
  const auto trace = trace::load_bytes(bytes, "fuzz.json", {.threads = 1, .partial = true});
  if (!trace) return;
  const trace::Steps steps = trace::find_steps(*trace);
  if ((way & 3) == 0) static_cast<void>(report::to_text(analysis::examine(*trace, steps)));
  if ((way & 3) == 1) {
    if (const auto summary = analysis::summarise(*trace, steps)) static_cast<void>(report::to_json(*summary));
  }
  if ((way & 3) == 2) {
    if (const auto replay = analysis::replay(*trace, steps)) static_cast<void>(report::to_json(*replay));
  }
  auto baseline = analysis::make_baseline(*trace, std::nullopt, std::nullopt);
  if (!baseline) {
    require(!baseline.error().message.empty(), "no reason");
    return;
  }
  report::WhatIfReport report{baseline->figures, {}};
  for (const whatif::Use& use : uses()) {
    report.predictions.push_back(predict(baseline->model, {use}, std::nullopt));
    judge(report.predictions.back());
  }
  const std::size_t first = way % sweep::first_uses().size();
  const whatif::Use under = sweep::parsed(sweep::first_uses()[first]);
  const whatif::Use& over = uses()[(way * std::size_t{7} + bytes.size()) % uses().size()];
  judge(predict(baseline->model, {under, over}, std::nullopt, whatif::Detail::kStepOnly));
  static_cast<void>(report::to_text(report, report::TextStyle{}));
  static_cast<void>(report::to_json(report));
}

using Random = std::minstd_rand;

/// The value of `"key": …` in a record: where it begins and ends.
struct Span {
  std::size_t begin = std::string::npos, end = 0;
};
Span value_of(const std::string& line, std::string_view key) {
  std::size_t at = line.find(key);
  if (at == std::string::npos) return {};
  at += key.size();
  std::size_t end = at;
  if (end < line.size() && line[end] == '"') {
    end = line.find('"', end + 1);
    end = end == std::string::npos ? line.size() : end + 1;
  } else {
    while (end < line.size() && line[end] != ',' && line[end] != '}' && line[end] != ']') ++end;
  }
  return {at, end};
}

constexpr std::array<std::string_view, 20> kKeys = {"\"ts\": ",
                                                    "\"dur\": ",
                                                    "\"correlation\": ",
                                                    "\"stream\": ",
                                                    "\"External id\": ",
                                                    "\"tid\": ",
                                                    "\"name\": ",
                                                    "\"cat\": ",
                                                    "\"Sequence number\": ",
                                                    "\"Fwd thread id\": ",
                                                    "\"Bytes\": ",
                                                    "\"Addr\": ",
                                                    "\"Total Allocated\": ",
                                                    "\"Input Dims\": ",
                                                    "\"device\": ",
                                                    "\"pid\": ",
                                                    "\"ph\": ",
                                                    "\"Device Type\": ",
                                                    "\"grid\": ",
                                                    "\"Input type\": "};
constexpr std::array<std::string_view, 12> kValues = {"0",          "1",    "-1",   "7",    "20", "1000000",
                                                      "4294967295", "1e15", "\"\"", "null", "[]", "[[8, 8], [8, 8]]"};

void change_value(std::vector<std::string>& lines, Random& random) {
  std::string& line = lines[random() % lines.size()];
  const std::string_view key = kKeys[random() % kKeys.size()];
  const Span to = value_of(line, key);
  if (to.begin == std::string::npos) return;
  std::string value;
  if (random() % 3 == 0) {
    value = kValues[random() % kValues.size()];
  } else {  // what another record has there
    const std::string& other = lines[random() % lines.size()];
    const Span from = value_of(other, key);
    if (from.begin == std::string::npos) return;
    value = other.substr(from.begin, from.end - from.begin);
  }
  line.replace(to.begin, to.end - to.begin, value);
}

void change_lines(std::vector<std::string>& lines, Random& random) {
  const std::size_t a = random() % lines.size();
  const std::size_t b = random() % lines.size();
  switch (random() % 6) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(a));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(b), std::string(lines[a]));
      break;
    case 2:
      std::swap(lines[a], lines[b]);
      break;
    case 3: {  // all of a kind go: calls, kernels, memory events, the backward pass
      const Span name = value_of(lines[a], random() % 2 == 0 ? "\"cat\": " : "\"name\": ");
      if (name.begin == std::string::npos) break;
      const std::string what = lines[a].substr(name.begin, name.end - name.begin);
      std::erase_if(lines, [&](const std::string& line) { return line.find(what) != std::string::npos; });
      break;
    }
    case 4: {  // a stretch of the file
      const std::size_t end = std::min(lines.size(), a + 1 + random() % 16);
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(a), lines.begin() + static_cast<std::ptrdiff_t>(end));
      break;
    }
    default:
      change_value(lines, random);
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned int seed) {
  Random random(seed | 1U);
  if (size < 2 || random() % 10 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> lines;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    lines.emplace_back(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  for (std::size_t i = 1 + random() % 4; i > 0 && lines.size() > 1; --i) {
    if (random() % 2 == 0) {
      change_value(lines, random);
    } else {
      change_lines(lines, random);
    }
  }
  if (random() % 4 == 0) data[0] = static_cast<std::uint8_t>(random());
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  const std::size_t kept = std::min(out.size(), max_size - 1);
  std::memcpy(data + 1, out.data(), kept);
  return kept + 1;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  run_chain({reinterpret_cast<const char*>(data) + 1, size - 1}, data[0]);
  return 0;
}
