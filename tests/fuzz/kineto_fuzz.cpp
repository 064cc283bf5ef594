// The whole importer on arbitrary bytes, from decompression to steps and typed arguments.
//
// The first byte of an input says how the rest is handed over (raw, as gzip, as zstd, as two gzip members), on how many
// threads, and whether blanks are put into its middle; the second sets strict and partial. What comes out is checked for
// the promises the rest of the program builds on: columns of one length, ids in range, times that do not overflow, the
// same trace from one thread and two.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "../unit/compress.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace {

using foretrace::Column;
using foretrace::Result;
using foretrace::StringId;
using foretrace::trace::LoadOptions;
using foretrace::trace::Trace;

// More than a piece of the importer, so that borders of pieces fall into the input.
constexpr std::size_t kPadding = 300'000;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Trace& t) {
  const foretrace::trace::Events& e = t.events;
  const std::size_t n = t.size();
  require(e.duration.size() == n && e.name.size() == n && e.lane.size() == n && e.args.size() == n);
  require(e.correlation.size() == n && e.external_id.size() == n && e.side.size() == n);
  require(e.category.size() == n && e.ph.size() == n);
  for (std::size_t i = 0; i < n; ++i) {
    require(e.duration[i] >= 0 && (e.start[i] <= 0 || e.duration[i] <= INT64_MAX - e.start[i]));
    require(e.category[i] < t.categories.size());
    require(e.lane[i].index() < t.lanes.size());
    require(e.name[i].index() < t.strings.size());
    require(!e.args[i].valid() || e.args[i].index() < t.args.size());
    // Reads the row each accessor hands out.
    if (const auto* op = t.op(i)) require(op->event_index >= INT64_MIN);
    if (const auto* p = t.python(i)) require(p->id >= INT64_MIN);
    if (const auto* m = t.memory(i)) require(m->bytes >= INT64_MIN);
    if (const auto* s = t.sync(i)) require(s->event_id >= INT64_MIN);
    if (const auto* c = t.copy(i)) require(c->bytes >= INT64_MIN);
    if (const auto* l = t.launch(i)) require(l->grid[0] >= 0);
    if (const auto* in = t.args.inputs(e.args[i]); in != nullptr && in->dims.valid()) {
      foretrace::trace::parse_shapes(t.strings[in->dims]);
    }
  }
  for (std::size_t l = 0; l < t.lanes.size(); ++l) t.lane_label(foretrace::LaneId{l});
  const foretrace::trace::Steps steps = foretrace::trace::find_steps(t);
  if (!steps.steps.empty()) require(steps.median() < steps.steps.size());
}

template <class T>
bool same(const Column<T>& a, const Column<T>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] == b[i])) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint8_t way = data[0];
  LoadOptions options;
  options.strict = (data[1] & 1) != 0;
  options.partial = (data[1] & 2) != 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  if ((way >> 2) % 16 == 2) bytes.insert(bytes.size() / 2, std::string(kPadding, ' '));
  if (way % 4 == 1) bytes = foretrace::test::gzip(bytes);
  if (way % 4 == 2) bytes = foretrace::test::zstd(bytes);
  if (way % 4 == 3) {
    const std::size_t half = bytes.size() / 2;
    bytes = foretrace::test::gzip(bytes.substr(0, half)) + foretrace::test::gzip(bytes.substr(half));
  }

  options.threads = 1;
  const Result<Trace> one = foretrace::trace::load_bytes(bytes, "fuzz.json", options);
  if (one) check(*one);
  if (!one) require(!one.error().message.empty() && one.error().file == "fuzz.json");

  // Threads, like the padding, cost far more than a small input does: try them on a share of the inputs.
  if ((way & 0x30) != 0) return 0;
  options.threads = 2;
  const Result<Trace> two = foretrace::trace::load_bytes(bytes, "fuzz.json", options);
  require(one.has_value() == two.has_value());
  if (!one) {
    require(one.error().to_string() == two.error().to_string());
    return 0;
  }
  require(same(one->events.start, two->events.start) && same(one->events.name, two->events.name));
  require(same(one->events.args, two->events.args) && same(one->events.lane, two->events.lane));
  require(one->strings.size() == two->strings.size());
  return 0;
}
