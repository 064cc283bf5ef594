#pragma once
// What the injection keeps of CUPTI's activity records: plain values, so that the file's writer knows nothing of CUPTI and can be
// tested without it.

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace foretrace::inject {

enum class Kind : std::uint8_t {
  kKernel,
  kMemcpy,
  kMemset,
  kRuntime,
  kDriver,
  kSync,
  kEvent,       ///< a CUDA event was recorded on a stream
  kRangeBegin,  ///< NVTX; begin and end meet by `id`
  kRangeEnd,
  kMark,    ///< NVTX, a moment
  kMemory,  ///< bytes > 0 allocated, < 0 released, at `address`
};

enum class Sync : std::uint8_t { kUnknown, kEvent, kStreamWaitEvent, kStream, kContext };

/// A memory's kind as names of copies show it.
enum class Place : std::uint8_t { kUnknown, kPageable, kPinned, kDevice, kArray, kManaged };

inline constexpr std::uint32_t kNone = 0xffffffffu;

/// One activity. Times are CUPTI's, in ns. Which fields mean something follows from the kind.
struct Record {
  Kind kind = Kind::kKernel;
  Sync sync = Sync::kUnknown;
  Place from = Place::kUnknown;
  Place to = Place::kUnknown;
  std::uint32_t name = 0;  ///< of Names
  std::uint64_t start = 0, end = 0;
  std::uint32_t device = kNone, context = kNone, stream = kNone;
  std::uint32_t correlation = 0;
  std::uint32_t thread = 0;  ///< calls and ranges
  std::uint32_t id = 0;      ///< a range's; an API call's number; an event's
  std::int64_t bytes = 0;
  std::uint64_t address = 0;
  std::uint64_t event_record = 0;  ///< joins a wait with the record of its event; 0: not known
  std::uint64_t graph_node = 0;
  std::uint32_t graph = 0;
  std::uint32_t registers = 0, shared_memory = 0;
  std::uint32_t domain = 0;  ///< of an NVTX range, of Names
  std::array<std::int32_t, 3> grid{}, block{};
  std::uint32_t peer_from = kNone, peer_to = kNone;  ///< devices of a copy between two
};

struct Device {
  std::uint32_t id = 0;
  std::string name;
  std::uint64_t memory = 0;
  std::uint32_t major = 0, minor = 0, multiprocessors = 0, warp = 0;
  std::uint32_t threads_per_block = 0, threads_per_multiprocessor = 0;
  std::uint32_t registers_per_block = 0, registers_per_multiprocessor = 0;
  std::uint32_t shared_per_block = 0, shared_per_multiprocessor = 0;
};

/// Texts by number; 0 is the empty one.
class Names {
 public:
  Names() { number(""); }
  std::uint32_t number(std::string_view text);
  const std::string& text(std::uint32_t number) const { return texts_[number]; }

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

/// Everything one process did, as far as there was room for it.
struct Activities {
  Names names;
  std::vector<Record> records;
  std::vector<Device> devices;
  std::uint64_t dropped_full = 0;   ///< records there was no room for
  std::uint64_t dropped_cupti = 0;  ///< records CUPTI had no buffer for
  std::uint64_t untimed = 0;        ///< records whose time CUPTI could not tell: they are left out
};

}  // namespace foretrace::inject
