#pragma once
// The same work on several threads. An exception that leaves a thread would end the program; here the first one is kept, the
// threads end, and the caller gets it as if it had done the work itself. If the system refuses a thread (no memory for its
// stack), the others do its share, since threads pull their work.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace foretrace {

/// Calls `work` on `threads` threads, this one among them. `work` takes its next piece by itself and returns when there is
/// none; `stop` is called where one of them threw, and makes the others return soon.
template <class Work, class Stop>
void run_workers(unsigned threads, const Work& work, const Stop& stop) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto guarded = [&] {
    try {
      work();
    } catch (...) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      stop();
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (unsigned t = 1; t < threads; ++t) others.emplace_back(guarded);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): fewer than wanted do the same work
    }
    guarded();
  }
  if (first) std::rethrow_exception(first);
}

/// `asked`, or as many as the machine has where that is 0.
inline unsigned thread_count(unsigned asked) {
  return asked != 0 ? asked : std::max(1U, std::thread::hardware_concurrency());
}

/// Calls `work(i)` for every i below `count`, on `threads` threads (0: as many as the machine has). Chance decides which
/// thread takes which, so each writes to a place of its own.
template <class Work>
void for_each_index(std::size_t count, unsigned threads, const Work& work) {
  std::atomic<std::size_t> next = 0;
  run_workers(
      static_cast<unsigned>(std::min<std::size_t>(thread_count(threads), count)),
      [&] {
        for (std::size_t i = next++; i < count; i = next++) work(i);
      },
      [&] { next = count; });
}

}  // namespace foretrace
