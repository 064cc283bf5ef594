#pragma once
// The text form of a graph: what dump and parse agree on. A line is a keyword, then its subject, then key=value pairs
// in any order; default values are left out. Tasks belong to the lane above them, dependencies ('>': who waits for
// this task, '^': who waits for it in the step after, '<': for whom this task waits while the device is full) to the task
// above them.
//
//   foretrace graph 1
//   step "ProfilerStep#4" traced=900000 last=1
//   lane cpu "Thread 100 (python)" trace=3
//   task 0 begin
//   task 1 call "cudaLaunchKernel" cost=5000 at=10000 phase=forward layer=0 event=12 op=9
//   > 2 launch lag=1600
//   lane gpu "GPU 0 stream 7" trace=5 device=0 stream=7 queue=1021
//   task 2 kernel "gemm" cost=40000 lag=1200 at=16600 phase=forward layer=0 launch=1 event=14 op=9

#include <array>
#include <string_view>

#include "foretrace/graph/graph.hpp"

namespace foretrace::graph {

inline constexpr std::string_view kTextHeader = "foretrace graph 1";
inline constexpr std::array<std::string_view, 3> kLaneKindNames = {"cpu", "gpu", "network"};
inline constexpr std::array<std::string_view, 3> kLaneRoleNames = {"work", "period-marks", "loader-workers"};

/// A count of Graph::Notes and its key.
struct NoteKey {
  std::string_view name;
  std::uint64_t Graph::Notes::* count;
};
inline constexpr NoteKey kNoteKeys[] = {{"refuted_waits", &Graph::Notes::refuted_waits},
                                        {"unexplained_lags", &Graph::Notes::unexplained_lags},
                                        {"orphans", &Graph::Notes::orphans},
                                        {"early_kernels", &Graph::Notes::early_kernels},
                                        {"dropped_soft", &Graph::Notes::dropped_soft},
                                        {"dropped_dependencies", &Graph::Notes::dropped_dependencies},
                                        {"unrecorded_tasks", &Graph::Notes::unrecorded_tasks},
                                        {"inferred_launches", &Graph::Notes::inferred_launches},
                                        {"border_tasks", &Graph::Notes::border_tasks},
                                        {"foreign_events", &Graph::Notes::foreign_events}};

/// A time of Startup and its key.
struct StartupKey {
  std::string_view name;
  Ns Startup::* time;
};
inline constexpr StartupKey kStartupKeys[] = {
    {"startup_launches", &Startup::launches},   {"startup_allocation", &Startup::allocation},
    {"startup_loading", &Startup::loading},     {"startup_tuning", &Startup::tuning},
    {"startup_compiling", &Startup::compiling}, {"startup_operations", &Startup::operations},
    {"startup_unsure", &Startup::unsure}};

/// A count of Recorded and its key.
struct RecordedKey {
  std::string_view name;
  std::uint16_t Recorded::* count;
};
inline constexpr RecordedKey kRecordedKeys[] = {{"ops", &Recorded::ops},
                                                {"calls", &Recorded::calls},
                                                {"layers", &Recorded::layers},
                                                {"ranges", &Recorded::ranges},
                                                {"frames", &Recorded::frames}};

}  // namespace foretrace::graph
