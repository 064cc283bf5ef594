#pragma once
// Text for a terminal: widths, shortening, wrapping, and numbers as people read them. Names come out of trace files and
// may hold anything, so everything printed passes through printable(): a trace cannot move the cursor or set colours.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "foretrace/base/types.hpp"

namespace foretrace {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

/// Columns a terminal needs: 2 for East Asian wide characters and emoji, 0 for combining marks.
std::size_t display_width(std::string_view text);

/// One line, safe to print: control characters become spaces or '?', invalid UTF-8 becomes U+FFFD.
std::string printable(std::string_view text);

/// At most `width` columns; too long texts lose their middle: "at::native::vec…kernel<4>".
std::string shorten_middle(std::string_view text, std::size_t width, bool utf8 = true);

/// Breaks at spaces so that no line is longer than `width`; every line but the first starts with `indent` spaces, and
/// `first_column` columns of the first line are taken already.
std::string wrap(std::string_view text, std::size_t width, std::size_t indent, std::size_t first_column);

/// A demangled kernel name without what only fills the line (parameter lists, lambdas, at::native::):
/// "void at::native::vectorized_elementwise_kernel<4, at::native::sqrt_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}
/// ::operator()() const::…, std::array<char*, 2ul> >(int, …)" -> "vectorized_elementwise_kernel<4, sqrt_kernel_cuda>".
std::string short_kernel_name(std::string_view name);

std::string format_ms(Ns ns);                    ///< 80562332 -> "80.562"
std::string format_us(double us);                ///< "741.12", "1.02"
std::string format_percent(double fraction);     ///< 0.9432 -> "94.3%"
std::string format_bytes(std::uint64_t bytes);   ///< file sizes, powers of 1000: "11.8 MB"
std::string format_memory(std::uint64_t bytes);  ///< memory, powers of 1000: "5.96 GB"
/// "1 step", "2 steps".
std::string plural(std::uint64_t n, std::string_view singular, std::string_view plural_form = {});

/// Shares of `whole` in per cent with one decimal, rounded so that they add up to 100 exactly; all 0 when whole is 0.
/// The parts must add up to it.
std::vector<double> percentages(const std::vector<Ns>& parts, Ns whole);

}  // namespace foretrace
