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

std::size_t TextTable::total(const Layout& layout) const {
  std::size_t sum = indent_;
  bool first = true;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (layout.shown[c] == 0) continue;
    sum += layout.widths[c] + (first ? 0 : kGap);
    first = false;
  }
  return sum;
}

// Column by column from the widest, so that a short name stays whole next to a long one.
void TextTable::shrink(Layout& layout, std::size_t width, std::size_t least, bool sentences) const {
  for (std::size_t all = total(layout); all > width; --all) {
    std::size_t widest = columns_.size();
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const bool gives_way = columns_[c].shrink || (sentences && columns_[c].wrap);
      if (!gives_way || layout.widths[c] <= std::max(least, display_width(columns_[c].header))) continue;
      if (widest == columns_.size() || layout.widths[c] > layout.widths[widest]) widest = c;
    }
    if (widest == columns_.size()) return;
    --layout.widths[widest];
  }
}

// The order is the one that the header promises.
TextTable::Layout TextTable::fit(const TextStyle& style) const {
  const std::size_t width = style.width;
  Layout layout{std::vector<std::size_t>(columns_.size()), std::vector<char>(columns_.size(), 1)};
  std::size_t last_turn = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    layout.widths[c] = display_width(columns_[c].header);
    for (const auto& cells : rows_) {
      layout.widths[c] =
          std::max(layout.widths[c], columns_[c].align == Align::kBar ? kBarWidth : display_width(cells[c]));
    }
    last_turn = std::max(last_turn, columns_[c].drop);
  }
  const Layout natural = layout;
  shrink(layout, width, kReadable, true);
  for (std::size_t c = columns_.size(); c-- > 0 && total(layout) > width;) {
    if (columns_[c].align == Align::kBar) layout.shown[c] = 0;
  }
  for (std::size_t turn = 1; !style.all_columns && turn <= last_turn && total(layout) > width; ++turn) {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (columns_[c].drop == turn) layout.shown[c] = 0;
    }
  }
  // A column that was left out may have made more room than was needed.
  layout.widths = natural.widths;
  shrink(layout, width, kReadable, true);
  shrink(layout, width, kNarrowest, style.all_columns);
  layout.stacked = !style.all_columns && total(layout) > width;
  return layout;
}

bool TextTable::headed() const {
  return std::any_of(columns_.begin(), columns_.end(), [](const TableColumn& c) { return !c.header.empty(); });
}

std::string TextTable::render_rows(const Layout& layout, const TextStyle& style) const {
  std::string out, line;
  const auto put = [&](const auto& cell_of) {
    line.assign(indent_, ' ');
    bool first = true;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (layout.shown[c] == 0) continue;
      if (!first) line.append(kGap, ' ');
      first = false;
      append_padded(line, cell_of(c), layout.widths[c], columns_[c].align == Align::kRight);
    }
    finish_line(out, line);
  };
  if (headed()) put([&](std::size_t c) { return columns_[c].header; });
  for (const auto& cells : rows_) {
    std::vector<std::string> more(cells.size());  // of wrapped cells, what the line before had no room for
    const auto first_line = [&](std::size_t c, const std::string& text) {
      const std::string wrapped = wrap(text, layout.widths[c], 0, 0);
      const std::size_t end = wrapped.find('\n');
      more[c] = end == std::string::npos ? std::string() : wrapped.substr(end + 1);
      return wrapped.substr(0, end);
    };
    put([&](std::size_t c) {
      if (columns_[c].align == Align::kBar) {
        return bar(std::strtod(cells[c].c_str(), nullptr), kBarWidth, style.utf8);
      }
      if (columns_[c].wrap) return first_line(c, cells[c]);
      return columns_[c].shrink ? shorten_middle(cells[c], layout.widths[c], style.utf8) : cells[c];
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
  std::string left_out;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (layout.shown[c] == 0 && columns_[c].drop > 0) left_out += (left_out.empty() ? "" : ", ") + columns_[c].header;
  }
  if (!left_out.empty())
    out += text_line("(no room here for: " + left_out + ")", style, std::max<std::size_t>(indent_, 2));
  return out;
}

std::string TextTable::render_stacked(const TextStyle& style) const {
  std::string out;
  if (headed()) out += text_line(columns_.front().header, style, indent_);
  for (const auto& cells : rows_) {
    const std::size_t inside = std::min(cells.front().find_first_not_of(' '), cells.front().size());
    out += std::string(indent_ + inside, ' ') +
           shorten_middle(cells.front().substr(inside), style.width - indent_ - inside, style.utf8) + "\n";
    const std::size_t indent = indent_ + inside + 2;
    std::string figures;
    for (std::size_t c = 1; c < columns_.size(); ++c) {
      if (cells[c].empty() || columns_[c].align == Align::kBar) continue;
      if (columns_[c].wrap) {
        out += std::string(indent, ' ') + wrap(cells[c], style.width, indent, indent) + "\n";
        continue;
      }
      figures += figures.empty() ? "" : ", ";
      figures += columns_[c].header.empty() ? cells[c] : columns_[c].header + " " + cells[c];
    }
    if (!figures.empty()) out += std::string(indent, ' ') + wrap(figures, style.width, indent, indent) + "\n";
  }
  return out;
}

std::string TextTable::render(const TextStyle& style) const {
  const Layout layout = fit(style);
  std::string out = layout.stacked ? render_stacked(style) : render_rows(layout, style);
  for (const std::string& note : notes_) {
    const std::size_t inside = std::min(note.find_first_not_of(' '), note.size());
    out += text_line(printable(note), style, indent_ + inside);
  }
  return out;
}

std::string text_line(std::string_view text, const TextStyle& style, std::size_t indent) {
  return std::string(indent, ' ') + wrap(text, style.width, indent + 2, indent) + "\n";
}

}  // namespace foretrace::report
