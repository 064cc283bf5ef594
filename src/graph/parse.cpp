#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "base/decimal.hpp"
#include "graph/task_row.hpp"
#include "graph/text_form.hpp"

namespace foretrace::graph {

namespace {

// Eleven days. Longer times are damaged text, and sums of them would leave the range of the clock.
constexpr Ns kLongestTime = 1'000'000 * kNsPerSecond;

/// One line, cut into what stands in front and its key=value pairs. The first thing wrong with it is kept in `error`.
class Line {
 public:
  explicit Line(std::string_view text) : rest_(text) { skip(); }

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  [[nodiscard]] const std::string& error() const { return error_; }
  void wrong(std::string message) {
    if (error_.empty()) error_ = std::move(message);
  }

  std::string_view word() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end);
    skip();
    return found;
  }

  [[nodiscard]] bool at_text() const { return rest_.starts_with('"'); }
  std::string text(std::string_view what) {
    std::string out;
    if (!at_text()) {
      wrong(fmt::format("{} in quotes is missing", what));
      return out;
    }
    for (std::size_t i = 1; i < rest_.size(); ++i) {
      char c = rest_[i];
      if (c == '"') {
        rest_.remove_prefix(i + 1);
        if (!rest_.empty() && rest_.front() != ' ') wrong(fmt::format("a blank must follow {}", what));
        skip();
        return out;
      }
      if (c == '\\') {
        if (++i >= rest_.size()) break;
        c = rest_[i];
        if (c == 'x') {
          const int high = i + 2 < rest_.size() ? hex(rest_[i + 1]) : -1;
          const int low = i + 2 < rest_.size() ? hex(rest_[i + 2]) : -1;
          if (high < 0 || low < 0) {
            wrong(fmt::format("{}: \\x needs two hexadecimal digits", what));
            return out;
          }
          c = static_cast<char>(high * 16 + low);
          i += 2;
        } else if (c != '"' && c != '\\') {
          wrong(fmt::format("{}: unknown escape \\{}", what, c));
          return out;
        }
      }
      out += c;
    }
    wrong(fmt::format("{} is not closed: \" is missing", what));
    return out;
  }

  std::int64_t number(std::string_view what, std::int64_t low, std::int64_t high) {
    return convert(what, word(), low, high);
  }

  template <std::size_t N>
  std::size_t choice(std::string_view what, const std::array<std::string_view, N>& names) {
    return pick(what, word(), names);
  }

  /// Calls use(key, value) for every pair left; flags have no value. `use` says whether it knows the key.
  template <class Use>
  void pairs(Use use) {
    while (!empty() && error_.empty()) {
      const std::string_view pair = word();
      const std::size_t equals = pair.find('=');
      const std::string_view key = pair.substr(0, equals);
      const bool flag = equals == std::string_view::npos;
      if (!use(key, flag ? std::string_view{} : pair.substr(equals + 1)) && error_.empty()) {
        wrong(fmt::format("'{}' is not known here", key));
      }
    }
  }

  std::int64_t convert(std::string_view what, std::string_view text, std::int64_t low, std::int64_t high) {
    const std::optional<std::int64_t> value = parse_int64(text);
    if (!value || *value < low || *value > high) {
      wrong(fmt::format("{} must be a whole number from {} to {}, not '{}'", what, low, high, text));
      return low;
    }
    return *value;
  }

  template <std::size_t N>
  std::size_t pick(std::string_view what, std::string_view text, const std::array<std::string_view, N>& names) {
    const auto it = std::find(names.begin(), names.end(), text);
    if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
    wrong(fmt::format("'{}' is no {}; there are: {}", text, what, fmt::join(names, ", ")));
    return 0;
  }

 private:
  static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  }
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  std::string_view rest_;
  std::string error_;
};

template <class Enum, std::size_t N>
std::array<std::string_view, N> names_of() {
  std::array<std::string_view, N> names;
  for (std::size_t i = 0; i < N; ++i) names[i] = to_string(static_cast<Enum>(i));
  return names;
}

class Reader {
 public:
  Result<Graph> run(std::string_view text) {
    while (!text.empty()) {
      std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      if (line.ends_with('\r')) line.remove_suffix(1);
      ++line_;
      if (line_ == 1) {
        if (line != kTextHeader) {
          return fail(ErrorCode::kUnreadable,
                      fmt::format("line 1: not the text of a graph: it must begin with '{}'", kTextHeader));
        }
        continue;
      }
      Line l(line);
      if (l.empty()) continue;
      one(l);
      if (!l.error().empty()) return fail(ErrorCode::kUnreadable, fmt::format("line {}: {}", line_, l.error()));
    }
    if (line_ == 0) return fail(ErrorCode::kUnreadable, "the text of a graph is empty");
    return complete();
  }

 private:
  static constexpr std::int64_t kMostTasks = 0xFFFF'FFF0;
  static constexpr std::int64_t kMostBack = 1000;

  void one(Line& l) {
    const std::string_view word = l.word();
    if (word == "task") return task(l);
    if (word == ">" || word == "^") return dependency(l, word == "^");
    if (word == "<") return soft(l);
    if (word == "lane") return lane(l);
    if (word == "layer") return layer(l);
    if (word == "step") return step(l);
    if (word == "notes") return notes(l);
    l.wrong(fmt::format("'{}' starts no line of a graph; there are: step, notes, layer, lane, task, >, <, ^", word));
  }

  static std::uint32_t id(Line& l, std::string_view what, std::string_view value) {
    return static_cast<std::uint32_t>(l.convert(what, value, 0, kMostTasks));
  }
  static Ns time(Line& l, std::string_view key, std::string_view value, Ns low = -kLongestTime) {
    return l.convert(key, value, low, kLongestTime);
  }

  void step(Line& l) {
    g_.step_name = l.text("the name of the step");
    l.pairs([&](std::string_view key, std::string_view value) {
      if (key == "traced") return g_.traced = time(l, key, value, 0), true;
      if (key == "period") return g_.period = time(l, key, value, 0), true;
      if (key == "steps") {
        return g_.recorded_steps.steps = static_cast<std::size_t>(l.convert(key, value, 0, INT64_MAX)), true;
      }
      if (key == "steps_low") return g_.recorded_steps.low = time(l, key, value, 0), true;
      if (key == "steps_high") return g_.recorded_steps.high = time(l, key, value, 0), true;
      if (key == "ramp_up") return g_.ramp_up = true;
      if (key == "main") return g_.main_lane = id(l, key, value), true;
      if (key == "last") return g_.last = TaskId{id(l, key, value)}, true;
      if (key == "copies") return g_.copies = static_cast<std::uint32_t>(l.convert(key, value, 1, 1 << 20)), true;
      if (key == "periodic") return g_.periodic = true;
      return false;
    });
  }

  void notes(Line& l) {
    l.pairs([&](std::string_view key, std::string_view value) {
      if (key == "unexplained_time") return g_.notes.unexplained_time = time(l, key, value), true;
      if (key == "waited") return g_.notes.waited = time(l, key, value), true;
      if (key == "allocator") return g_.notes.allocator = time(l, key, value, 0), true;
      for (const StartupKey& part : kStartupKeys) {
        if (key == part.name) return g_.notes.startup.*part.time = time(l, key, value, 0), true;
      }
      if (key == "queue_depth_measured") return g_.notes.queue_depth_measured = true;
      for (const NoteKey& note : kNoteKeys) {
        if (key != note.name) continue;
        g_.notes.*note.count = static_cast<std::uint64_t>(l.convert(key, value, 0, INT64_MAX));
        return true;
      }
      return false;
    });
  }

  void layer(Line& l) {
    const std::int64_t which = l.number("the layer's number", 0, kMostTasks);
    if (which != static_cast<std::int64_t>(g_.layers.size())) {
      return l.wrong(
          fmt::format("layer {} must follow layer {}", which, static_cast<std::int64_t>(g_.layers.size()) - 1));
    }
    Layer layer;
    layer.name = g_.strings.intern(l.text("the layer's name"));
    layer.type = g_.strings.intern(l.text("the layer's type"));
    l.pairs([&](std::string_view key, std::string_view) { return key == "synthetic" && (layer.synthetic = true); });
    g_.layers.push_back(layer);
  }

  void lane(Line& l) {
    GraphLane lane;
    lane.kind = static_cast<GraphLaneKind>(l.choice("kind of lane", kLaneKindNames));
    lane.name = g_.strings.intern(l.text("the lane's name"));
    lane.begin = lane.end = static_cast<std::uint32_t>(g_.size());
    l.pairs([&](std::string_view key, std::string_view value) {
      if (key == "role")
        return lane.role = static_cast<LaneRole>(l.pick("role of a lane", value, kLaneRoleNames)), true;
      if (key == "trace") return lane.trace_lane = LaneId{id(l, key, value)}, true;
      if (key == "device") return lane.device = l.convert(key, value, INT64_MIN, INT64_MAX), true;
      if (key == "stream") return lane.stream = l.convert(key, value, INT64_MIN, INT64_MAX), true;
      if (key == "queue") return lane.queue_depth = id(l, key, value), true;
      if (key == "queue_lag") return lane.queue_lag = time(l, key, value), true;
      if (key == "by-priority") return lane.by_priority = true;
      return false;
    });
    g_.lanes.push_back(lane);
  }

  void task(Line& l) {
    if (g_.lanes.empty()) return l.wrong("a task before the first lane");
    const std::int64_t which = l.number("the task's number", 0, kMostTasks);
    if (which != static_cast<std::int64_t>(g_.size())) {
      return l.wrong(fmt::format("task {} must follow task {}", which, static_cast<std::int64_t>(g_.size()) - 1));
    }
    static const auto kKinds = names_of<TaskKind, 8>();
    static const auto kPhaseNames = names_of<Phase, kPhases>();
    static const auto kOriginNames = names_of<Origin, 4>();
    const auto kind = static_cast<TaskKind>(l.choice("kind of task", kKinds));
    append_task(g_, {.kind = kind,
                     .lane = static_cast<std::uint32_t>(g_.lanes.size() - 1),
                     .name = g_.strings.intern(l.at_text() ? l.text("the task's name") : std::string())});
    l.pairs([&](std::string_view key, std::string_view value) {
      if (key == "cost") return g_.cost.back() = time(l, key, value, 0), true;
      if (key == "lag") return g_.lane_lag.back() = time(l, key, value), true;
      if (key == "at") return g_.measured.back() = time(l, key, value), true;
      for (const RecordedKey& count : kRecordedKeys) {
        if (key == count.name) return set_recorded(count, l.convert(key, value, 0, UINT16_MAX)), true;
      }
      if (key == "priority") return set_priority(l.convert(key, value, INT32_MIN, INT32_MAX)), true;
      if (key == "phase") return g_.phase.back() = static_cast<Phase>(l.pick("phase", value, kPhaseNames)), true;
      if (key == "layer") return g_.layer.back() = LayerId{id(l, key, value)}, true;
      if (key == "launch") return g_.launch.back() = TaskId{id(l, key, value)}, true;
      if (key == "event") return g_.event.back() = EventId{id(l, key, value)}, true;
      if (key == "op") return g_.op.back() = EventId{id(l, key, value)}, true;
      if (key == "work") return id(l, key, value), true;  // of older files: a row of a table that is not in them
      if (key == "origin") return g_.origin.back() = static_cast<Origin>(l.pick("origin", value, kOriginNames)), true;
      return false;
    });
    g_.lanes.back().end = static_cast<std::uint32_t>(g_.size());
    if (g_.layer.back().valid() && g_.layer.back().index() >= g_.layers.size()) {
      l.wrong(fmt::format("layer {} does not exist; there are {}", g_.layer.back().value, g_.layers.size()));
    }
    if (g_.launch.back().valid()) mention(g_.launch.back().value);
  }

  void set_recorded(const RecordedKey& count, std::int64_t events) {
    g_.recorded.resize(g_.size(), Recorded{});
    g_.recorded.back().*count.count = static_cast<std::uint16_t>(events);
  }

  void set_priority(std::int64_t priority) {
    g_.priority.resize(g_.size(), 0);
    g_.priority.back() = static_cast<std::int32_t>(priority);
  }

  void dependency(Line& l, bool carried) {
    if (g_.size() == 0) return l.wrong("a dependency before the first task");
    static const auto kKinds = names_of<DependencyKind, kDependencyKinds>();
    Dependency d{static_cast<std::uint32_t>(g_.size() - 1), 0, 0, kWhole, DependencyKind::kNone};
    d.to = static_cast<std::uint32_t>(l.number("the task that waits", 0, kMostTasks));
    d.kind = static_cast<DependencyKind>(l.choice("kind of dependency", kKinds));
    if (d.kind <= DependencyKind::kLane || d.kind == DependencyKind::kQueue || d.kind == DependencyKind::kShare) {
      return l.wrong(fmt::format("a dependency '{}' has no line of its own", to_string(d.kind)));
    }
    std::uint32_t back = 1;
    l.pairs([&](std::string_view key, std::string_view value) {
      if (key == "lag") return d.lag = time(l, key, value), true;
      if (key == "point") return d.point = static_cast<std::uint32_t>(l.convert(key, value, 0, kWhole)), true;
      if (carried && key == "back") return back = static_cast<std::uint32_t>(l.convert(key, value, 1, kMostBack)), true;
      return false;
    });
    mention(d.to);
    if (carried) {
      g_.carried.push_back({d, back});
    } else {
      dependencies_.push_back(d);
    }
  }

  void soft(Line& l) {
    if (g_.size() == 0) return l.wrong("a dependency before the first task");
    if (g_.soft.back() != kNone) return l.wrong("a task waits for one task that shares the device, not for two");
    SoftDependency s;
    s.from = TaskId{static_cast<std::uint32_t>(l.number("the task waited for", 0, kMostTasks))};
    if (const std::string_view kind = l.word(); kind != to_string(DependencyKind::kShare)) {
      return l.wrong(fmt::format("only 'share' is given by the task that waits, not '{}'", kind));
    }
    l.pairs([&](std::string_view key, std::string_view value) {
      if (key == "lag") return s.lag = time(l, key, value), true;
      if (key == "point") return s.point = static_cast<std::uint32_t>(l.convert(key, value, 0, kWhole)), true;
      if (key == "slack") return s.slack = l.convert(key, value, 0, INT64_MAX / 4), true;
      return false;
    });
    mention(s.from.value);
    g_.soft.back() = static_cast<std::uint32_t>(g_.soft_dependencies.size());
    g_.soft_dependencies.push_back(s);
  }

  // Tasks may be named before their own line: whether they exist is known at the end.
  void mention(std::uint32_t task) {
    if (task < farthest_) return;
    farthest_ = task;
    farthest_line_ = line_;
  }

  Result<Graph> complete() {
    if (g_.size() == 0) return fail(ErrorCode::kUnreadable, "the text of a graph holds no task");
    if (farthest_ >= g_.size()) {
      return fail(ErrorCode::kUnreadable, fmt::format("line {}: task {} does not exist; the graph has {}",
                                                      farthest_line_, farthest_, g_.size()));
    }
    if (!g_.last.valid() || g_.last.index() >= g_.size()) {
      return fail(ErrorCode::kUnreadable, "the 'step' line must name the last task: last=N");
    }
    if (g_.main_lane >= g_.lanes.size()) {
      return fail(ErrorCode::kUnreadable,
                  fmt::format("the 'step' line names lane {} as main; there are {}", g_.main_lane, g_.lanes.size()));
    }
    for (const GraphLane& lane : g_.lanes) {
      if ((lane.end - lane.begin) % g_.copies == 0) continue;
      return fail(ErrorCode::kUnreadable, fmt::format("lane {} holds {} tasks, which {} copies cannot share evenly",
                                                      g_.strings[lane.name], lane.end - lane.begin, g_.copies));
    }
    if (!g_.priority.empty()) g_.priority.resize(g_.size(), 0);
    if (!g_.recorded.empty()) g_.recorded.resize(g_.size(), Recorded{});
    finish(g_, std::move(dependencies_));
    return std::move(g_);
  }

  Graph g_;
  std::vector<Dependency> dependencies_;
  std::size_t line_ = 0;
  std::uint32_t farthest_ = 0;
  std::size_t farthest_line_ = 0;
};

}  // namespace

Result<Graph> parse(std::string_view text) { return Reader().run(text); }

}  // namespace foretrace::graph
