#pragma once
// One line on a terminal's stderr while something takes longer than a second; erased when it is over.
//
//   reading trace.json.gz  [##########----------]  52%  812 MB/s  3 s left
//   replaying trace.json.gz  [#####---------------]  3 of 12 steps  9 s left
//
// A program that is interrupted while the line is shown (Ctrl-C) erases it first.

#include <chrono>
#include <cstdio>
#include <string>

#include "foretrace/base/result.hpp"

namespace foretrace::cli {

class ProgressBar {
 public:
  ProgressBar(std::FILE* err, std::size_t width) : err_(err), width_(width) {}
  ~ProgressBar() { erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::string_view what, std::uint64_t done, std::uint64_t total, std::string_view unit);
  void erase();
  /// The line for given figures; `seconds` since the start.
  static std::string line(std::string_view what, std::uint64_t done, std::uint64_t total, std::string_view unit,
                          double seconds, std::size_t width);

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* err_;
  std::size_t width_;
  std::string what_;
  Clock::time_point started_, drawn_;
  bool visible_ = false;
};

}  // namespace foretrace::cli
