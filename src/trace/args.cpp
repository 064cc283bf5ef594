#include <simdjson.h>

#include <cstring>

#include "base/decimal.hpp"
#include "foretrace/trace/trace.hpp"
#include "trace/tensor_size.hpp"

namespace foretrace::trace {

namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

// Integers may be written as numbers or as strings ("7", ROCm "0x0"), booleans count as 0 and 1.
std::int64_t as_integer(const element& value) {
  switch (value.type()) {
    case element_type::INT64:
      return value.get_int64().value_unsafe();
    case element_type::UINT64: {
      const std::uint64_t u = value.get_uint64().value_unsafe();
      return u <= static_cast<std::uint64_t>(INT64_MAX) ? static_cast<std::int64_t>(u) : kAbsent;
    }
    case element_type::DOUBLE: {
      const double d = value.get_double().value_unsafe();
      return d >= -9e15 && d <= 9e15 ? static_cast<std::int64_t>(d) : kAbsent;
    }
    case element_type::BOOL:
      return value.get_bool().value_unsafe() ? 1 : 0;
    case element_type::STRING: {
      const std::string text(value.get_string().value_unsafe());
      if (text.starts_with("0x")) {
        char* end = nullptr;
        const unsigned long long parsed = std::strtoull(text.c_str() + 2, &end, 16);
        return *end == '\0' && text.size() > 2 ? static_cast<std::int64_t>(parsed) : kAbsent;
      }
      return parse_int64(text).value_or(kAbsent);
    }
    default:
      return kAbsent;
  }
}

double as_double(const element& value) {
  double d = -1;
  if (value.get(d) == simdjson::SUCCESS) return d;
  const std::int64_t i = as_integer(value);
  return i == kAbsent ? -1 : static_cast<double>(i);
}

void as_triple(const element& value, std::array<std::int64_t, 3>& out) {
  simdjson::dom::array list;
  if (value.get(list) != simdjson::SUCCESS) return;
  std::size_t i = 0;
  for (const element v : list) {
    if (i < 3) out[i++] = std::max<std::int64_t>(0, as_integer(v));
  }
}

// Which argument is kept in which member.
template <class T, class Row>
using Member = std::pair<std::string_view, T Row::*>;

constexpr Member<std::int64_t, KernelLaunch> kLaunchNumbers[] = {
    {"stream", &KernelLaunch::stream},
    {"device", &KernelLaunch::device},
    {"context", &KernelLaunch::context},
    {"registers per thread", &KernelLaunch::registers_per_thread},
    {"shared memory", &KernelLaunch::shared_memory_bytes},
    {"graph id", &KernelLaunch::graph_id},
    {"graph node id", &KernelLaunch::graph_node_id},
    {"priority", &KernelLaunch::priority}};
constexpr Member<double, KernelLaunch> kLaunchShares[] = {{"blocks per SM", &KernelLaunch::blocks_per_sm},
                                                          {"warps per SM", &KernelLaunch::warps_per_sm},
                                                          {"est. achieved occupancy %", &KernelLaunch::occupancy_pct}};
constexpr Member<std::array<std::int64_t, 3>, KernelLaunch> kLaunchExtents[] = {{"grid", &KernelLaunch::grid},
                                                                                {"block", &KernelLaunch::block}};
constexpr Member<std::int64_t, SyncInfo> kSyncNumbers[] = {
    {"stream", &SyncInfo::stream}, {"device", &SyncInfo::device}, {"wait_on_stream", &SyncInfo::wait_on_stream}};
constexpr Member<std::int64_t, CollectiveInfo> kCollectiveNumbers[] = {
    {"In msg nelems", &CollectiveInfo::in_elements},
    {"Out msg nelems", &CollectiveInfo::out_elements},
    {"Group size", &CollectiveInfo::group_size},
    {"Seq", &CollectiveInfo::sequence}};
constexpr Member<StringId, CollectiveInfo> kCollectiveTexts[] = {{"Collective name", &CollectiveInfo::name},
                                                                 {"dtype", &CollectiveInfo::dtype},
                                                                 {"Process Group Name", &CollectiveInfo::group},
                                                                 {"Process Group Ranks", &CollectiveInfo::group_ranks}};
constexpr Member<StringId, OpInputs> kInputLists[] = {{"Input Dims", &OpInputs::dims},
                                                      {"Input dims", &OpInputs::dims},
                                                      {"Input type", &OpInputs::types},
                                                      {"Input Strides", &OpInputs::strides},
                                                      {"Concrete Inputs", &OpInputs::concrete}};

class TupleDecoder {
 public:
  TupleDecoder(const object& tuple, StringTable& strings) : strings_(strings) {
    for (const auto field : tuple) one(field.key, field.value);
  }

  KernelLaunch launch;
  SyncInfo sync;
  CollectiveInfo collective;
  OpInputs inputs;
  std::int64_t fwd_thread = kAbsent;
  bool has_launch = false, has_sync = false, has_collective = false, has_inputs = false;

 private:
  StringId text(const element& value) {
    std::string_view s;
    if (value.get(s) == simdjson::SUCCESS) return strings_.intern(s);
    return strings_.intern(simdjson::minify(value));
  }

  // The member of a row that a key is kept in; null where it is none of the list.
  template <class Row, class T, std::size_t N>
  static T* find(const std::pair<std::string_view, T Row::*> (&members)[N], Row& row, std::string_view key) {
    for (const auto& [name, member] : members) {
      if (name == key) return &(row.*member);
    }
    return nullptr;
  }

  void one(std::string_view key, const element& v) {
    if (auto* number = find(kLaunchNumbers, launch, key)) *number = as_integer(v);
    if (auto* share = find(kLaunchShares, launch, key)) *share = as_double(v);
    if (auto* extent = find(kLaunchExtents, launch, key)) as_triple(v, *extent);
    if (auto* number = find(kSyncNumbers, sync, key)) *number = as_integer(v);
    if (auto* number = find(kCollectiveNumbers, collective, key)) *number = as_integer(v);
    if (auto* word = find(kCollectiveTexts, collective, key)) *word = text(v);
    if (auto* list = find(kInputLists, inputs, key)) {
      *list = text(v);
      has_inputs = true;
    }
    if (key == "cuda_sync_kind") sync.kind = text(v);
    if (key == "Fwd thread id") fwd_thread = as_integer(v);
    has_sync |= key == "cuda_sync_kind" || key == "wait_on_stream";
    has_collective |= key == "Collective name";
    has_launch |= key == "grid" || key == "block" || key == "registers per thread" ||
                  (launch.stream != kAbsent && launch.device != kAbsent);
  }

  StringTable& strings_;
};

}  // namespace

std::size_t ArgsTable::decode(StringTable& strings) {
  const std::size_t n = tuples_.size();
  launch_row_.assign(n, 0);
  sync_row_.assign(n, 0);
  collective_row_.assign(n, 0);
  inputs_row_.assign(n, 0);
  fwd_thread_.assign(n, kAbsent);
  std::size_t unreadable = 0;
  simdjson::dom::parser parser;
  const auto keep = [](auto& rows, auto& table, std::size_t id, const auto& value) {
    table.push_back(value);
    rows[id] = static_cast<std::uint32_t>(table.size());
  };
  for (std::size_t id = 1; id < n; ++id) {  // 0 is the empty string
    const std::string_view tuple = tuples_[StringId{id}];
    object root;
    if (parser.parse(tuple.data(), tuple.size()).get(root) != simdjson::SUCCESS) {
      ++unreadable;
      continue;
    }
    const TupleDecoder d(root, strings);
    if (d.has_launch && !d.has_sync) keep(launch_row_, launches_, id, d.launch);
    if (d.has_sync) keep(sync_row_, syncs_, id, d.sync);
    if (d.has_collective) keep(collective_row_, collectives_, id, d.collective);
    if (d.has_inputs) keep(inputs_row_, inputs_, id, d.inputs);
    fwd_thread_[id] = d.fwd_thread;
  }
  return unreadable;
}

std::optional<std::string> ArgsTable::find(ArgsId id, std::string_view key) const {
  const std::string_view tuple = text(id);
  if (tuple.empty()) return std::nullopt;
  simdjson::dom::parser parser;
  object root;
  if (parser.parse(tuple.data(), tuple.size()).get(root) != simdjson::SUCCESS) return std::nullopt;
  for (const auto field : root) {
    if (field.key == key) return simdjson::minify(field.value);
  }
  return std::nullopt;
}

std::size_t ArgsTable::bytes() const {
  return tuples_.bytes() +
         (launch_row_.size() + sync_row_.size() + collective_row_.size() + inputs_row_.size()) * sizeof(std::uint32_t) +
         fwd_thread_.size() * sizeof(std::int64_t) + launches_.size() * sizeof(KernelLaunch) +
         syncs_.size() * sizeof(SyncInfo) + collectives_.size() * sizeof(CollectiveInfo) +
         inputs_.size() * sizeof(OpInputs);
}

namespace {

// A list that holds numbers, or nothing, is a shape; a list of lists is walked.
void collect_shapes(const simdjson::dom::array& list, std::vector<std::vector<std::int64_t>>& out) {
  std::vector<std::int64_t> shape;
  bool nested = false;
  for (const element v : list) {
    simdjson::dom::array inner;
    if (v.get(inner) == simdjson::SUCCESS) {
      nested = true;
      collect_shapes(inner, out);
    } else {
      shape.push_back(as_integer(v));
    }
  }
  if (!nested && !possible_shape(shape)) shape.clear();
  if (!nested) out.push_back(std::move(shape));
}

}  // namespace

std::vector<std::vector<std::int64_t>> parse_shapes(std::string_view json) {
  std::vector<std::vector<std::int64_t>> shapes;
  if (json.empty()) return shapes;  // an absent list may have no memory at all, which the parser would copy from
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  if (parser.parse(json.data(), json.size()).get(list) != simdjson::SUCCESS) return shapes;
  for (const element v : list) {
    simdjson::dom::array inner;
    if (v.get(inner) == simdjson::SUCCESS) {
      collect_shapes(inner, shapes);
    } else {
      shapes.emplace_back();
    }
  }
  return shapes;
}

std::vector<std::string> parse_strings(std::string_view json) {
  std::vector<std::string> out;
  if (json.empty()) return {};
  simdjson::dom::parser parser;
  simdjson::dom::array list;
  if (parser.parse(json.data(), json.size()).get(list) != simdjson::SUCCESS) return out;
  for (const element v : list) {
    std::string_view s;
    out.emplace_back(v.get(s) == simdjson::SUCCESS ? std::string(s) : std::string(simdjson::minify(v)));
  }
  return out;
}

}  // namespace foretrace::trace
