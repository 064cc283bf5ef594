#include "cli/progress_bar.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "base/readable.hpp"

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

// Signals that end a program from outside. Where nothing else handles them, the line is erased and the signal is passed on.
constexpr std::array<int, 3> kEnding{SIGINT, SIGTERM, SIGHUP};
constexpr std::string_view kErase = "\r\x1b[K";
std::array<struct sigaction, kEnding.size()> before_us{};
volatile std::sig_atomic_t line_fd = -1;

extern "C" void erase_and_end(int signal) {
  const int fd = line_fd;
  // Only what a handler may do: no formatting, no locks, no streams.
  if (fd >= 0) static_cast<void>(!::write(fd, kErase.data(), kErase.size()));
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void listen(std::FILE* err) {
  line_fd = ::fileno(err);
  for (std::size_t i = 0; i < kEnding.size(); ++i) {
    ::sigaction(kEnding[i], nullptr, &before_us[i]);
    if (before_us[i].sa_handler != SIG_DFL) continue;  // it is ignored (nohup) or handled already
    struct sigaction ours{};
    ours.sa_handler = erase_and_end;
    ::sigaction(kEnding[i], &ours, nullptr);
  }
}

void stop_listening() {
  for (std::size_t i = 0; i < kEnding.size(); ++i) {
    if (before_us[i].sa_handler == SIG_DFL) ::sigaction(kEnding[i], &before_us[i], nullptr);
  }
  line_fd = -1;
}

}  // namespace

std::string ProgressBar::line(std::string_view what, std::uint64_t done, std::uint64_t total, std::string_view unit,
                              double seconds, std::size_t width) {
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const bool bytes = unit == kBytes;
  std::string figures;
  if (total > 0) {
    const double fraction = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const auto full = static_cast<std::size_t>(fraction * kBarWidth);
    figures = fmt::format("  [{}{}]", std::string(full, '#'), std::string(kBarWidth - full, '-'));
    figures += bytes ? fmt::format("  {:3.0f}%", fraction * 100)
                     : fmt::format("  {} of {} {}", format_count(done), format_count(total), unit);
  } else {
    figures = bytes ? "  " + format_bytes(done) : fmt::format("  {} {}", format_count(done), unit);
  }
  if (bytes) figures += fmt::format("  {}/s", format_bytes(static_cast<std::uint64_t>(rate)));
  if (total > done && rate > 0)
    figures += fmt::format("  {} left", duration_text(static_cast<double>(total - done) / rate));
  // A line that fills the terminal wraps and could not be erased.
  const std::size_t room = width > figures.size() + 1 ? width - figures.size() - 1 : 0;
  return shorten_middle(printable(what), room, false) + figures;
}

void ProgressBar::update(std::string_view what, std::uint64_t done, std::uint64_t total, std::string_view unit) {
  const Clock::time_point now = Clock::now();
  if (what_ != what) {
    erase();
    what_ = what;
    started_ = drawn_ = now;
    return;
  }
  if (now - started_ < kDelay || (visible_ && now - drawn_ < kInterval)) return;
  const double seconds = std::chrono::duration<double>(now - started_).count();
  if (!visible_) listen(err_);
  fmt::print(err_, "\r{}\x1b[K", line(what, done, total, unit, seconds, width_));
  std::fflush(err_);
  drawn_ = now;
  visible_ = true;
}

void ProgressBar::erase() {
  if (!visible_) return;
  fmt::print(err_, "{}", kErase);
  std::fflush(err_);
  stop_listening();
  visible_ = false;
}

}  // namespace foretrace::cli
