#include "base/readable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace foretrace {
namespace {

struct Range {
  char32_t first, last;
};
// Blocks, not single characters: enough to keep tables aligned for names people really use.
constexpr std::array<Range, 13> kWide{{{0x1100, 0x115F},
                                       {0x2E80, 0x303E},
                                       {0x3041, 0x33FF},
                                       {0x3400, 0x4DBF},
                                       {0x4E00, 0x9FFF},
                                       {0xA000, 0xA4CF},
                                       {0xAC00, 0xD7A3},
                                       {0xF900, 0xFAFF},
                                       {0xFE30, 0xFE4F},
                                       {0xFF00, 0xFF60},
                                       {0xFFE0, 0xFFE6},
                                       {0x1F300, 0x1FAFF},
                                       {0x20000, 0x3FFFD}}};
constexpr std::array<Range, 6> kZero{
    {{0x0300, 0x036F}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};

template <std::size_t N>
bool within(const std::array<Range, N>& ranges, char32_t c) {
  return std::any_of(ranges.begin(), ranges.end(), [c](Range r) { return c >= r.first && c <= r.last; });
}

std::size_t columns(char32_t c) {
  if (c < 0x300) return 1;
  if (within(kZero, c)) return 0;
  return within(kWide, c) ? 2 : 1;
}

// Right-to-left overrides and line separators rearrange a terminal just as control characters do.
bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) ||
         c == 0x2028 || c == 0x2029;
}

std::string scaled(double value, double step, const std::array<const char*, 6>& units) {
  std::size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} {}", value, units[0]) : fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    width += columns(point.value);
    at += point.length;
  }
  return width;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) {
      out += kReplacementCharacter;
    } else if (is_control(point.value)) {
      out += point.value == '\n' || point.value == '\t' || point.value == '\r' ? ' ' : '?';
    } else {
      out.append(text, at, point.length);
    }
    at += point.length;
  }
  return out;
}

std::string shorten_middle(std::string_view text, std::size_t width, bool utf8) {
  if (display_width(text) <= width) return std::string(text);
  const std::string_view mark = utf8 ? "…" : "...";
  const std::size_t mark_width = utf8 ? 1 : 3;
  if (width <= mark_width) return std::string(width, '.');
  const std::size_t room = width - mark_width;
  const std::size_t head_room = room - room / 2;
  // Positions of all code points, so that the tail can be taken from the end without decoding backwards.
  std::string head;
  std::size_t used = 0, at = 0;
  while (at < text.size()) {
    const CodePoint point = decode_utf8(text, at);
    if (used + columns(point.value) > head_room) break;
    used += columns(point.value);
    head.append(text, at, point.length);
    at += point.length;
  }
  std::size_t tail_width = display_width(text.substr(at));
  while (at < text.size() && tail_width > room - used) {
    const CodePoint point = decode_utf8(text, at);
    tail_width -= columns(point.value);
    at += point.length;
  }
  return head + std::string(mark) + std::string(text.substr(at));
}

std::string wrap(std::string_view text, std::size_t width, std::size_t indent, std::size_t first_column) {
  std::string out;
  std::size_t column = first_column;
  bool blank = true;  // nothing on this line yet
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (word.empty()) continue;
    const std::size_t length = display_width(word);
    if (!blank && column + 1 + length > width) {
      out += '\n';
      out.append(indent, ' ');
      column = indent;
      blank = true;
    }
    if (!blank) {
      out += ' ';
      ++column;
    }
    out += word;
    column += length;
    blank = false;
  }
  return out;
}

std::string short_kernel_name(std::string_view name) {
  if (name.starts_with("void ")) name.remove_prefix(5);
  // Parameter lists tell nothing the name does not: "f<…>(int, float*)" and the same inside template arguments. What
  // stands after a space is kept: "Memcpy HtoD (Pinned -> Device)".
  std::string flat;
  flat.reserve(name.size());
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  for (std::size_t i = 0; i < name.size();) {
    if (name.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size();
      continue;
    }
    const bool list = name[i] == '(' && i > 0 && name[i - 1] != ' ' && name[i - 1] != ',' && name[i - 1] != '<';
    if (!list) {
      flat += name[i++];
      continue;
    }
    int depth = 0;
    std::size_t end = i;
    while (end < name.size()) {
      if (name[end] == '(') ++depth;
      if (name[end] == ')' && --depth == 0) break;
      ++end;
    }
    if (end == name.size()) {  // not balanced: the name was cut
      flat += name.substr(i);
      break;
    }
    i = end + 1;
  }
  // Lambdas are numbered in ways only the compiler knows; the function around them says what they do.
  const auto drop = [&flat](std::string_view from, std::string_view to) {
    for (std::size_t at = flat.find(from); at != std::string::npos; at = flat.find(from, at)) {
      const std::size_t end = to.empty() ? at + from.size() : flat.find(to, at + from.size());
      if (end == std::string::npos) return;
      flat.erase(at, end + to.size() - at);
    }
  };
  drop("::{lambda", "}");
  drop("::operator const", "");
  drop("at::native::", "");
  drop(", std::array<char*, ", ">");
  drop(", at::detail::Array<char*, ", ">");
  drop(" const", "");
  for (std::size_t at = flat.find(" >"); at != std::string::npos; at = flat.find(" >", at)) flat.erase(at, 1);
  return flat;
}

std::string format_ms(Ns ns) {
  const Ns size = ns < 0 ? -ns : ns;
  if (size == 0 || size >= 1000) return fmt::format("{:.3f}", to_ms(ns));
  // Below a microsecond three digits would say nothing; nanoseconds are exact with six.
  std::string text = fmt::format("{:.6f}", to_ms(ns));
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::string format_us(double us) { return us >= 100 ? fmt::format("{:.1f}", us) : fmt::format("{:.2f}", us); }

std::string format_percent(double fraction) { return fmt::format("{:.1f}%", fraction * 100); }

std::string format_bytes(std::uint64_t bytes) {
  return scaled(static_cast<double>(bytes), 1000, {"B", "kB", "MB", "GB", "TB", "PB"});
}

std::string format_memory(std::uint64_t bytes) {
  return bytes >= 1'000'000'000 ? fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9) : format_bytes(bytes);
}

std::string plural(std::uint64_t n, std::string_view singular, std::string_view plural_form) {
  if (n == 1) return fmt::format("1 {}", singular);
  return plural_form.empty() ? fmt::format("{} {}s", format_count(n), singular)
                             : fmt::format("{} {}", format_count(n), plural_form);
}

std::vector<double> percentages(const std::vector<Ns>& parts, Ns whole) {
  std::vector<double> out(parts.size(), 0.0);
  if (whole <= 0) return out;
  // Tenths of a per cent, the largest remainders rounded up until they add up.
  constexpr int kTenths = 1000;
  std::vector<int> tenths(parts.size());
  std::vector<double> left(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double exact = kTenths * static_cast<double>(parts[i]) / static_cast<double>(whole);
    tenths[i] = static_cast<int>(exact);
    left[i] = exact - tenths[i];
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return left[a] > left[b]; });
  int missing = kTenths - std::accumulate(tenths.begin(), tenths.end(), 0);
  for (std::size_t i = 0; i < order.size() && missing > 0; ++i, --missing) ++tenths[order[i]];
  for (std::size_t i = 0; i < parts.size(); ++i) out[i] = tenths[i] / 10.0;
  return out;
}

}  // namespace foretrace
