#include <cstring>
#include <type_traits>

#include "foretrace/trace/load.hpp"
#include "trace/event_columns.hpp"

namespace foretrace::trace {

namespace {

// Changes whenever what is packed does.
constexpr std::string_view kMark = "foretrace trace 2\n";

/// Both directions say what a trace is made of in one place: `fields` below.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <class T>
  void value(const T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    out_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  void text(std::string_view s) {
    value(s.size());
    out_ += s;
  }
  template <class T>
  void column(const Column<T>& c) {
    value(c.size());
    out_.append(reinterpret_cast<const char*>(c.data()), c.bytes());
  }

 private:
  std::string& out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  template <class T>
  void value(T& v) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (in_.size() < sizeof v) return broken();
    in_.copy(reinterpret_cast<char*>(&v), sizeof v);
    in_.remove_prefix(sizeof v);
  }
  std::string_view text() {
    std::size_t n = 0;
    value(n);
    if (n > in_.size()) {
      broken();
      return {};
    }
    const std::string_view s = in_.substr(0, n);
    in_.remove_prefix(n);
    return s;
  }
  void text(std::string& s) { s = text(); }
  template <class T>
  void column(Column<T>& c) {
    std::size_t n = 0;
    value(n);
    if (n > in_.size() / sizeof(T)) return broken();
    c.clear();
    if (n > 0) in_.copy(reinterpret_cast<char*>(c.extend(n)), n * sizeof(T));
    in_.remove_prefix(n * sizeof(T));
  }
  void broken() {
    whole_ = false;
    in_ = {};
  }
  [[nodiscard]] bool whole() const { return whole_ && in_.empty(); }
  [[nodiscard]] bool ok() const { return whole_; }

 private:
  std::string_view in_;
  bool whole_ = true;
};

// Everything of a fixed shape, in the order it is written.
template <class Stream, class T>
void fixed(Stream& s, T& t) {
  s.text(t.path);
  s.text(t.format);
  s.value(t.input_bytes);
  s.value(t.partial);
  s.text(t.steps_by);
  s.value(t.base_time_ns);
  each_column(t.events, [&](auto& column) { s.column(column); });
  s.column(t.op_ids);
  s.column(t.python_ids);
  s.column(t.memory_ids);
  s.column(t.sync_ids);
  s.column(t.copy_ids);
  s.value(t.distributed.present);
  s.value(t.distributed.rank);
  s.value(t.distributed.world_size);
  s.text(t.distributed.backend);
  s.text(t.distributed.nccl_version);
}

template <class Stream, class T>
void device(Stream& s, T& d) {
  s.text(d.name);
  for (auto* v : {&d.id, &d.total_memory_bytes, &d.compute_major, &d.compute_minor, &d.sm_count, &d.warp_size,
                  &d.max_threads_per_block, &d.max_threads_per_sm, &d.registers_per_sm, &d.registers_per_block,
                  &d.shared_memory_per_block, &d.shared_memory_per_block_optin, &d.shared_memory_per_sm}) {
    s.value(*v);
  }
}

}  // namespace

std::string pack(const Trace& t) {
  std::string out(kMark);
  out.append(sizeof(std::uint64_t), '\0');
  Writer w(out);
  fixed(w, t);
  // Ids are places in the order of insertion, so texts in that order are all there is to say.
  w.value(t.strings.size());
  for (std::size_t i = 0; i < t.strings.size(); ++i) w.text(t.strings[StringId{i}]);
  w.value(t.args.size());
  for (std::size_t i = 0; i < t.args.size(); ++i) w.text(t.args.text(ArgsId{i}));
  w.value(t.categories.size());
  for (const Category& c : t.categories) w.value(c);
  w.value(t.lanes.size());
  for (const Lane& l : t.lanes) w.value(l);
  w.value(t.devices.size());
  for (const DeviceProperties& d : t.devices) device(w, d);
  w.value(t.metadata.size());
  for (const auto& [key, json] : t.metadata) {
    w.text(key);
    w.text(json);
  }
  w.value(t.diagnostics.problems().size());
  for (const Problem& p : t.diagnostics.problems()) {
    w.text(p.name);
    w.value(p.severity);
    w.text(p.meaning);
    w.text(p.example);
    w.value(p.offset);
    w.value(p.count);
  }
  const std::uint64_t sum = StringTable::hash(std::string_view(out).substr(kMark.size() + sizeof(std::uint64_t)));
  std::memcpy(out.data() + kMark.size(), &sum, sizeof sum);
  return out;
}

Result<Trace> unpack(std::string_view bytes) {
  const auto refused = [] {
    return fail(ErrorCode::kUnreadable, "a packed trace is damaged, or another version of foretrace packed it",
                "all workers of a cluster need the same version");
  };
  std::uint64_t sum = 0;
  if (!bytes.starts_with(kMark) || bytes.size() < kMark.size() + sizeof sum) return refused();
  bytes.copy(reinterpret_cast<char*>(&sum), sizeof sum, kMark.size());
  bytes.remove_prefix(kMark.size() + sizeof sum);
  if (StringTable::hash(bytes) != sum) return refused();
  Reader r(bytes);
  Trace t;
  fixed(r, t);
  const auto several = [&](const auto& one) {
    std::size_t n = 0;
    r.value(n);
    for (std::size_t i = 0; i < n && r.ok(); ++i) one();
  };
  several([&] { t.strings.intern(r.text()); });
  several([&] { t.args.intern(r.text()); });
  t.args.decode(t.strings);
  several([&] { r.value(t.categories.emplace_back()); });
  several([&] { r.value(t.lanes.emplace_back()); });
  several([&] { device(r, t.devices.emplace_back()); });
  several([&] {
    auto& [key, json] = t.metadata.emplace_back();
    r.text(key);
    r.text(json);
  });
  several([&] {
    Problem p;
    r.text(p.name);
    r.value(p.severity);
    r.text(p.meaning);
    r.text(p.example);
    r.value(p.offset);
    r.value(p.count);
    t.diagnostics.add(p.name, p.severity, p.meaning, p.example, p.offset, p.count);
  });
  if (!r.whole()) return refused();
  return t;
}

}  // namespace foretrace::trace
