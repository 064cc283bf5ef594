#include "report/text_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/readable.hpp"

namespace foretrace::report {
namespace {

constexpr std::size_t kGap = 2;

void append_padded(std::string& line, const std::string& cell, std::size_t width, bool right) {
  const std::size_t used = display_width(cell);
  const std::size_t blank = used < width ? width - used : 0;
  if (right) line.append(blank, ' ');
  line += cell;
  if (!right) line.append(blank, ' ');
}

void finish_line(std::string& out, std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line;
  out += '\n';
  line.clear();
}

}  // namespace

std::string bar(double fraction, std::size_t width, bool utf8) {
  static constexpr std::array<const char*, 8> kEighths{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(fraction > 0)) return {};
  fraction = std::min(fraction, 1.0);
  if (!utf8) return std::string(static_cast<std::size_t>(std::lround(fraction * static_cast<double>(width))), '#');
  const auto eighths = static_cast<std::size_t>(std::lround(fraction * static_cast<double>(width) * 8));
  std::string out;
  for (std::size_t i = 0; i < eighths / 8; ++i) out += "█";
  return out + kEighths[eighths % 8];
}

void TextTable::row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

std::string TextTable::render(const TextStyle& style) const {
  std::vector<std::size_t> widths(columns_.size());
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths[c] = display_width(columns_[c].header);
    for (const auto& cells : rows_) {
      widths[c] = std::max(widths[c], columns_[c].align == Align::kBar ? kBarWidth : display_width(cells[c]));
    }
  }
  std::vector<bool> shown(columns_.size(), true);
  const auto total = [&] {
    std::size_t sum = indent_;
    bool first = true;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (!shown[c]) continue;
      sum += widths[c] + (first ? 0 : kGap);
      first = false;
    }
    return sum;
  };
  // First the long names give way, then the bars go.
  // Column by column from the widest, so that a name that is short anyway stays whole alongside a long one.
  const auto floor_of = [&](std::size_t c) { return std::max(kNarrowest, display_width(columns_[c].header)); };
  for (std::size_t excess = total() > style.width ? total() - style.width : 0; excess > 0; --excess) {
    std::size_t widest = columns_.size();
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (!(columns_[c].shrink || columns_[c].wrap) || widths[c] <= floor_of(c)) continue;
      if (widest == columns_.size() || widths[c] > widths[widest]) widest = c;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
  }
  for (std::size_t c = columns_.size(); c-- > 0 && total() > style.width;) {
    if (columns_[c].align == Align::kBar) shown[c] = false;
  }

  std::string out, line;
  const auto put = [&](const auto& cell_of) {
    line.assign(indent_, ' ');
    bool first = true;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (!shown[c]) continue;
      if (!first) line.append(kGap, ' ');
      first = false;
      append_padded(line, cell_of(c), widths[c], columns_[c].align == Align::kRight);
    }
    finish_line(out, line);
  };
  const bool headed =
      std::any_of(columns_.begin(), columns_.end(), [](const TableColumn& c) { return !c.header.empty(); });
  if (headed) put([&](std::size_t c) { return columns_[c].header; });
  for (const auto& cells : rows_) {
    std::vector<std::string> more(cells.size());  // of wrapped cells, what the line before had no room for
    const auto first_line = [&](std::size_t c, const std::string& text) {
      const std::string wrapped = wrap(text, widths[c], 0, 0);
      const std::size_t end = wrapped.find('\n');
      more[c] = end == std::string::npos ? std::string() : wrapped.substr(end + 1);
      return wrapped.substr(0, end);
    };
    put([&](std::size_t c) {
      if (columns_[c].align == Align::kBar) {
        return bar(std::strtod(cells[c].c_str(), nullptr), kBarWidth, style.utf8);
      }
      if (columns_[c].wrap) return first_line(c, cells[c]);
      return columns_[c].shrink ? shorten_middle(cells[c], widths[c], style.utf8) : cells[c];
    });
    while (std::any_of(more.begin(), more.end(), [](const std::string& text) { return !text.empty(); })) {
      put([&](std::size_t c) {
        const std::string rest = std::exchange(more[c], {});
        const std::size_t end = rest.find('\n');
        if (end != std::string::npos) more[c] = rest.substr(end + 1);
        return rest.substr(0, end);
      });
    }
  }
  for (const std::string& note : notes_) {
    line.assign(indent_, ' ');
    line += printable(note);
    finish_line(out, line);
  }
  return out;
}

}  // namespace foretrace::report
