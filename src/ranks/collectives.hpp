#pragma once
// Collectives of a job: which kernels on which ranks are the same operation. Matched by process group, by sequence number
// where the trace has one, else by step and order, kind and size; what only one rank shows is left unmatched. A send and its
// receive are matched by both ends, in order; a kernel of batch_isend_irecv takes part in several of them.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/types.hpp"
#include "foretrace/ranks/job.hpp"

namespace foretrace::ranks {

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,  ///< and grouped sends and receives
  kBarrier,
  kBroadcast,
  kScatter,
  kReduce,
  kGather,
  kSendRecv,  ///< one sender, one receiver
  kOther,
};
std::string_view to_string(CollectiveKind kind);

/// What one communication kernel of a trace moved, as far as its record shows.
struct RecordedCollective {
  CollectiveKind kind = CollectiveKind::kOther;
  std::int64_t bytes = -1;  ///< of one rank's input (of all-gather its output); -1 unknown
  std::int64_t ranks = -1;  ///< of its group; -1 unknown
};
RecordedCollective recorded_collective(const trace::Trace& trace, std::uint32_t event);

/// Who waits for whom: everybody for everybody, all for one root, one root for all, the receiver for the sender. (A sender
/// may wait for its receiver too: job_graph.cpp asks the times.)
enum class Waits : std::uint8_t { kAll, kOnRoot, kRootOnAll };
Waits waits_of(CollectiveKind kind);

struct Member {
  std::uint32_t rank;   ///< index into Job::ranks
  std::uint32_t event;  ///< of that rank's trace
  Ns start, end;        ///< on that rank's own clock, absolute
};

struct Collective {
  CollectiveKind kind = CollectiveKind::kOther;
  std::uint32_t group = 0;  ///< index into Matching::groups
  std::uint32_t family =
      0;  ///< same group, kind and size (and ends of a message): instances whose transfers should take as long
  std::int64_t bytes = -1;             ///< of one rank's input (of all-gather its output); -1 unknown
  std::int64_t step = -1;              ///< the profiler's step number; -1 when outside of any
  std::uint32_t first = 0, count = 0;  ///< Matching::members
  std::uint32_t root = 0;              ///< member of rooted kinds: offset from `first`; of send and receive the sender
  bool ends_together = false;          ///< all members end when the transfer does, as far as the records tell
};

struct Group {
  std::string name;                    ///< "default_pg", "0"; "all ranks" when the trace names none
  std::string description;             ///< "mesh_tp"; empty when the trace has none
  std::vector<std::int64_t> declared;  ///< the ranks that belong to it as the traces say; empty: unknown
  std::vector<std::uint32_t> ranks;    ///< indices of those seen taking part
  std::int64_t size = -1;              ///< as the trace says; -1 unknown
};

/// One operation of a communication kernel, whether another rank shows it or not.
struct GroupOperation {
  std::uint32_t event;  ///< the kernel, of that rank's trace
  std::uint32_t group;  ///< index into Matching::groups
  CollectiveKind kind;
  std::int64_t bytes;     ///< as Collective::bytes
  std::int64_t from, to;  ///< ranks of the job, of send and receive; -1 otherwise
};

struct Matching {
  std::vector<Group> groups;                            ///< all that records name
  std::vector<std::vector<GroupOperation>> operations;  ///< per rank, in the order of its trace
  std::vector<Collective> collectives;                  ///< group by group, each in order
  std::vector<Member> members;
  std::uint32_t families = 0;
  std::vector<std::uint64_t> unmatched;  ///< per rank: communication kernels no other rank shows
  std::vector<std::uint64_t> total;      ///< per rank: communication kernels
  std::uint64_t incomplete = 0;          ///< collectives that lack the kernel of a rank that takes part in their group
  std::vector<std::uint64_t> reordered;  ///< per rank: collectives it runs in another order than others of their group
  bool foreign_groups = false;           ///< some group, as it describes itself, has no second member among these ranks
  [[nodiscard]] std::span<const Member> of(const Collective& c) const {
    return std::span(members).subspan(c.first, c.count);
  }
};

Matching match(const Job& job);

}  // namespace foretrace::ranks
