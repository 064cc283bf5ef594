#include "cli/progress_bar.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/text.hpp"

namespace foretrace::cli {
namespace {

constexpr std::chrono::milliseconds kDelay{1000};
constexpr std::chrono::milliseconds kInterval{100};
constexpr std::size_t kBarWidth = 20;

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(std::max(1.0, seconds));
  if (whole < 100) return fmt::format("{} s", whole);
  return fmt::format("{} min", (whole + 30) / 60);
}

}  // namespace

std::string ProgressBar::line(std::string_view what, std::uint64_t done, std::uint64_t total, double seconds,
                              std::size_t width) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::string figures;
  if (total > 0) {
    const double fraction = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const auto full = static_cast<std::size_t>(fraction * kBarWidth);
    figures =
        fmt::format("  [{}{}]  {:3.0f}%", std::string(full, '#'), std::string(kBarWidth - full, '-'), fraction * 100);
  } else {
    figures = "  " + report::format_bytes(done);
  }
  figures += fmt::format("  {}/s", report::format_bytes(static_cast<std::uint64_t>(rate)));
  if (total > done && rate > 0)
    figures += fmt::format("  {} left", duration_text(static_cast<double>(total - done) / rate));
  // A line that fills the terminal wraps and could not be erased.
  const std::size_t room = width > figures.size() + 1 ? width - figures.size() - 1 : 0;
  return report::shorten_middle(report::printable(what), room, false) + figures;
}

void ProgressBar::update(std::string_view what, std::uint64_t done, std::uint64_t total) {
  const Clock::time_point now = Clock::now();
  if (what_ != what) {
    erase();
    what_ = what;
    started_ = drawn_ = now;
    return;
  }
  if (now - started_ < kDelay || (visible_ && now - drawn_ < kInterval)) return;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  fmt::print(err_, "\r{}\x1b[K", line(what, done, total, seconds, width_));
  std::fflush(err_);
  drawn_ = now;
  visible_ = true;
}

void ProgressBar::erase() {
  if (!visible_) return;
  fmt::print(err_, "\r\x1b[K");
  std::fflush(err_);
  visible_ = false;
}

}  // namespace foretrace::cli
