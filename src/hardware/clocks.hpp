#pragma once
// Clock cycles of steps that depend on each other, independent of memory traffic: starts of blocks, one index after
// another, levels of a tree. Measured by device: clocks/<device>.csv (tools/fit_clocks.py).

#include <array>
#include <string_view>
#include <utility>

namespace foretrace::hardware {

struct Clocks {
  // Rows by index.
  double row_block = 0;        ///< between the starts of two blocks that move a row each
  double addition = 0;         ///< of an SM between two atomic additions nobody waits for
  double pair_block = 0;       ///< between the starts of two blocks that each add up four sorted indices of 128 columns
  double same_row = 0;         ///< of an index that is added up behind another one of its row
  double walked_index = 0;     ///< of an index of a short list that one kernel walks
  double bag = 0, in_bag = 0;  ///< of a bag a warp takes, and of every index in it
  double tile_sort = 0, tile_pass = 0;  ///< of keys that one block sorts: once, and for eight bits of them
  double sort = 0, sort_pass = 0;       ///< the same of more keys, in kernels of their own
  // Rows.
  double summed = 0;                ///< of a value that a thread adds to others
  double meeting = 0;               ///< of blocks that put their sums together in memory
  double scan = 0, scan_level = 0;  ///< of a stretch of a prefix sum, and for each level of its tree
  // Pooling.
  double maximum = 0;  ///< of an element of a window that a thread looks at for a maximum, channels innermost
  double mean = 0;     ///< the same for a mean
  double plane = 0, in_window = 0;  ///< of a plane whose means a block takes, and for each element of a window
};

/// Names as the table has them.
using ClockName = std::pair<std::string_view, double Clocks::*>;
inline constexpr std::array<ClockName, 19> kClockNames = {{
    {"row_block", &Clocks::row_block},
    {"addition", &Clocks::addition},
    {"pair_block", &Clocks::pair_block},
    {"same_row", &Clocks::same_row},
    {"walked_index", &Clocks::walked_index},
    {"bag", &Clocks::bag},
    {"in_bag", &Clocks::in_bag},
    {"tile_sort", &Clocks::tile_sort},
    {"tile_pass", &Clocks::tile_pass},
    {"sort", &Clocks::sort},
    {"sort_pass", &Clocks::sort_pass},
    {"summed", &Clocks::summed},
    {"meeting", &Clocks::meeting},
    {"scan", &Clocks::scan},
    {"scan_level", &Clocks::scan_level},
    {"maximum", &Clocks::maximum},
    {"mean", &Clocks::mean},
    {"plane", &Clocks::plane},
    {"in_window", &Clocks::in_window},
}};

/// A table of them.
Clocks parse_clocks(std::string_view csv);

}  // namespace foretrace::hardware
