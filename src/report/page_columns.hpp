#pragma once
// The columns of the page's timelines, while they are filled.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "foretrace/graph/graph.hpp"

namespace foretrace::report {

/// Numbers of seven bits a byte, the low ones first; the high bit says that more follow.
class Column {
 public:
  void number(std::uint64_t value) {
    while (value >= 0x80) {
      bytes_ += static_cast<char>(value | 0x80);
      value >>= 7;
    }
    bytes_ += static_cast<char>(value);
  }
  void zigzag(std::int64_t value) {
    number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Names of all timelines, each once.
class Names {
 public:
  std::uint64_t place(std::string_view text) {
    if (text.empty()) return 0;
    const auto [at, added] = places_.try_emplace(std::string(text), list_.size() + 1);
    if (added) list_.push_back(&at->first);
    return at->second;
  }
  [[nodiscard]] const std::vector<const std::string*>& list() const { return list_; }

 private:
  std::unordered_map<std::string, std::size_t> places_;  // nodes stay where they are
  std::vector<const std::string*> list_;
};

/// The columns of one timeline; page_pack.hpp says what each holds.
struct Columns {
  Column start, length, name, layer, op, kind, why, cause, event;
  Column shapes, launch, waits, waits_for, waits_why;

  /// What a task is, and the task that held it last, if one did.
  void add_task(std::uint32_t task, graph::TaskKind what, graph::Phase phase, bool critical,
                graph::DependencyKind held_by, std::optional<std::uint32_t> held_last) {
    kind.number(static_cast<unsigned>(what) | static_cast<unsigned>(phase) << 4 | (critical ? 1U << 7 : 0U));
    why.number(static_cast<unsigned>(held_by));
    cause.zigzag(held_last ? static_cast<std::int64_t>(task) - *held_last : 0);
  }
  /// A task of several ranks: no event of one trace belongs to it.
  void add_no_event() {
    event.zigzag(0);
    shapes.number(0);
    launch.number(0);
  }
  [[nodiscard]] std::array<std::pair<const char*, const Column*>, 14> all() const {
    return {{{"start", &start},
             {"length", &length},
             {"name", &name},
             {"layer", &layer},
             {"op", &op},
             {"kind", &kind},
             {"why", &why},
             {"cause", &cause},
             {"event", &event},
             {"shapes", &shapes},
             {"launch", &launch},
             {"waits", &waits},
             {"waits_for", &waits_for},
             {"waits_why", &waits_why}}};
  }
};

/// What each task waits for on other lanes: sources by target, as the page lists them.
void add_dependencies(Columns& out, const graph::Graph& g);

}  // namespace foretrace::report
