#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/readable.hpp"
#include "report/text_table.hpp"
#include "report/wrap_code.hpp"

namespace foretrace::report {
namespace {

TEST(Text, WidthCountsColumnsNotBytes) {
  EXPECT_EQ(display_width("conv1"), 5u);
  EXPECT_EQ(display_width("größe"), 5u);
  EXPECT_EQ(display_width("層"), 2u);
  EXPECT_EQ(display_width("e\xCC\x81"), 1u);  // e + combining accent
  EXPECT_EQ(display_width("\xff\xfe"), 2u);
}

TEST(Text, PrintableTakesControlAwayFromTheInput) {
  EXPECT_EQ(printable("a\nb\tc"), "a b c");
  EXPECT_EQ(printable("\x1b[31mred"), "?[31mred");
  EXPECT_EQ(printable("x\xE2\x80\xAEy"), "x?y");  // right-to-left override
  EXPECT_EQ(printable("a\xff"), "a\xEF\xBF\xBD");
}

TEST(Text, ShortenKeepsBothEnds) {
  EXPECT_EQ(shorten_middle("short", 10), "short");
  EXPECT_EQ(shorten_middle("abcdefghij", 5), "ab…ij");
  EXPECT_EQ(shorten_middle("abcdefghij", 6, false), "ab...j");
  EXPECT_EQ(shorten_middle("abcdefghij", 1), ".");
  EXPECT_EQ(shorten_middle("abcdefghij", 0), "");
}

TEST(Text, ShortenNeverExceedsTheWidth) {
  EXPECT_TRUE(rc::check("at most width columns", [](const std::string& text) {
    const auto width = *rc::gen::inRange<std::size_t>(0, 40);
    RC_ASSERT(display_width(shorten_middle(printable(text), width)) <= width);
  }));
}

TEST(Text, WrapBreaksAtSpaces) {
  EXPECT_EQ(wrap("one two three", 8, 2, 0), "one two\n  three");
  EXPECT_EQ(wrap("one two", 8, 2, 6), "one\n  two");
  EXPECT_EQ(wrap("unbreakable_word", 4, 2, 0), "unbreakable_word");
  EXPECT_EQ(wrap("", 10, 0, 0), "");
}

TEST(Text, NumbersAsPeopleReadThem) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_ms(80562332), "80.562");
  EXPECT_EQ(format_percent(0.9432), "94.3%");
  EXPECT_EQ(format_bytes(19), "19 B");
  EXPECT_EQ(format_bytes(11753760), "11.8 MB");
  EXPECT_EQ(format_memory(150109880320), "150.11 GB");
  EXPECT_EQ(format_us(741.12), "741.1");
  EXPECT_EQ(format_us(1.0234), "1.02");
  EXPECT_EQ(plural(1, "step"), "1 step");
  EXPECT_EQ(plural(2000, "launch", "launches"), "2,000 launches");
}

TEST(Text, KernelNamesLoseWhatOnlyFillsTheLine) {
  EXPECT_EQ(
      short_kernel_name(
          "void at::native::vectorized_elementwise_kernel<4, at::native::sqrt_kernel_cuda(at::TensorIteratorBase&)::{"
          "lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}, std::array<char*, "
          "2ul> >(int, at::native::sqrt_kernel_cuda(at::TensorIteratorBase&)::{lambda()#2}::operator()() const, "
          "std::array<char*, 2ul>)"),
      "vectorized_elementwise_kernel<4, sqrt_kernel_cuda>");
  EXPECT_EQ(short_kernel_name(
                "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int, float const*)"),
            "max_pool_forward_nchw<float, float>");
  EXPECT_EQ(short_kernel_name("Memcpy HtoD (Pinned -> Device)"), "Memcpy HtoD (Pinned -> Device)");
  EXPECT_EQ(short_kernel_name("void nchwToNhwc<float, true, (cudnnKernelDataType_t)2>(int)"),
            "nchwToNhwc<float, true, (cudnnKernelDataType_t)2>");
  EXPECT_EQ(short_kernel_name("cut_off(int, flo"), "cut_off(int, flo");
  EXPECT_EQ(short_kernel_name(""), "");
}

TextTable kernels() {
  TextTable table({{"kernel", Align::kLeft, true}, {"launches"}, {"ms"}, {"", Align::kBar}}, 0);
  table.row({"gemm", "12", "3.500", "0.35"});
  table.row({"a_kernel_with_quite_a_long_name_indeed", "1,000", "10.000", "1"});
  return table;
}

TEST(TextTable, AlignsNumbersToTheRight) {
  EXPECT_EQ(kernels().render({.width = 100}),
            "kernel                                  launches      ms\n"
            "gemm                                          12   3.500  ███▌\n"
            "a_kernel_with_quite_a_long_name_indeed     1,000  10.000  ██████████\n");
}

TEST(TextTable, ShortensLongNamesFirst) {
  const std::string text = kernels().render({.width = 50});
  EXPECT_NE(text.find("a_kernel_w…me_indeed"), std::string::npos) << text;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    EXPECT_LE(display_width(text.substr(at, end - at)), 50u);
    at = end + 1;
  }
}

TEST(TextTable, SentencesGoOnInTheNextLine) {
  TextTable table({{"what-if", Align::kLeft}, {"what", Align::kLeft, false, true}, {"checked", Align::kLeft}}, 0);
  table.row({"amp", "mixed precision: autocast, and a gradient scaler for fp16", "yes"});
  table.row({"tf32", "products in TF32", "no"});
  EXPECT_EQ(table.render({.width = 46}),
            "what-if  what                          checked\n"
            "amp      mixed precision: autocast,    yes\n"
            "         and a gradient scaler for\n"
            "         fp16\n"
            "tf32     products in TF32              no\n");
}

TEST(TextTable, DropsBarsWhenNamesCannotGiveMore) {
  const std::string text = kernels().render({.width = 36});
  EXPECT_EQ(text.find("█"), std::string::npos) << text;
  EXPECT_NE(text.find("10.000"), std::string::npos);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TextTable predictions() {
  TextTable table({{"what if", Align::kLeft, true},
                   {"ms"},
                   {.header = "GPU ms", .drop = 2},
                   {"peak"},
                   {.header = "costs", .align = Align::kLeft, .drop = 1}});
  table.row({"fused-optimizer", "68.66", "67.12", "5.96 GB", "modelled"});
  return table;
}

TEST(TextTable, LeavesColumnsOutInTheirTurn) {
  EXPECT_EQ(predictions().render({.width = 53, .all_columns = false}),
            "  what if             ms  GPU ms     peak  costs\n"
            "  fused-optimizer  68.66   67.12  5.96 GB  modelled\n");
  EXPECT_EQ(predictions().render({.width = 45, .all_columns = false}),
            "  what if             ms  GPU ms     peak\n"
            "  fused-optimizer  68.66   67.12  5.96 GB\n"
            "  (no room here for: costs)\n");
  EXPECT_EQ(predictions().render({.width = 40, .all_columns = false}),
            "  what if             ms     peak\n"
            "  fused-optimizer  68.66  5.96 GB\n"
            "  (no room here for: GPU ms, costs)\n");
  // Names give way last.
  EXPECT_NE(predictions().render({.width = 30, .all_columns = false}).find("fused-…mizer"), std::string::npos);
  // Nothing is left out of a file.
  EXPECT_NE(predictions().render({.width = 40}).find("modelled"), std::string::npos);
}

TEST(TextTable, RowsThatCannotFitBecomeParagraphs) {
  TextTable table({{"of the peak, GB", Align::kLeft}, {"parameters"}, {"gradients"}, {"activations"}});
  table.row({"as it is", "0.10", "0.02", "5.45"});
  EXPECT_EQ(table.render({.width = 40, .all_columns = false}),
            "  of the peak, GB\n"
            "  as it is\n"
            "    parameters 0.10, gradients 0.02,\n"
            "    activations 5.45\n");
}

TEST(TextTable, AnyTableFitsAnyTerminal) {
  rc::check("no line is longer than the terminal, and cells of kept columns are there", [] {
    std::vector<TableColumn> columns{{"name", Align::kLeft, true}};
    const auto more = *rc::gen::inRange<std::size_t>(1, 12);
    for (std::size_t c = 0; c < more; ++c) {
      columns.push_back({.header = "column " + std::to_string(c), .drop = *rc::gen::inRange<std::size_t>(0, 4)});
    }
    TextTable table(columns);
    std::vector<std::string> cells{std::string(*rc::gen::inRange<std::size_t>(1, 90), 'n')};
    for (std::size_t c = 0; c < more; ++c) cells.push_back(std::to_string(*rc::gen::inRange(100'000, 999'999)));
    table.row(cells);
    const auto width = *rc::gen::inRange<std::size_t>(60, 161);
    const std::string text = table.render({.width = width, .all_columns = false});
    for (const std::string& line : lines_of(text)) RC_ASSERT(display_width(line) <= width);
    for (std::size_t c = 1; c <= more; ++c) {
      if (columns[c].drop == 0) RC_ASSERT(text.find(cells[c]) != std::string::npos);
    }
  });
}

TEST(WrapCode, StaysPython) {
  EXPECT_EQ(wrap_code("a = b", 20, 0), "a = b");
  EXPECT_EQ(wrap_code("alpha.beta = gamma.delta = True", 20, 2), "alpha.beta = \\\n  gamma.delta = True");
  EXPECT_EQ(wrap_code("call(one, two, three, four)", 14, 0), "call(one, two,\nthree, four)");
  EXPECT_EQ(wrap_code("x = 1  # a comment that goes on", 18, 0), "x = 1\n# a comment that\n# goes on");
  EXPECT_EQ(wrap_code("f('a b c d e f', 2)", 8, 0), "f('a b c d e f',\n2)");
}

TEST(TextTable, LongNamesShareTheWidth) {
  TextTable table({{"kernel", Align::kLeft, true}, {"layer", Align::kLeft, true}, {"ms"}}, 0);
  table.row({std::string(80, 'K'), std::string(70, 'L'), "1.000"});
  const std::string text = table.render({.width = 60, .utf8 = false});
  const auto kernel = std::count(text.begin(), text.end(), 'K'), layer = std::count(text.begin(), text.end(), 'L');
  EXPECT_NEAR(static_cast<double>(kernel), static_cast<double>(layer), 2) << text;
  // One that is short anyway stays whole.
  TextTable other({{"kernel", Align::kLeft, true}, {"layer", Align::kLeft, true}, {"ms"}}, 0);
  other.row({std::string(80, 'K'), "layer1.0.conv1", "1.000"});
  EXPECT_NE(other.render({.width = 60}).find("layer1.0.conv1"), std::string::npos);
}

TEST(Format, TimesBelowAMicrosecondAreShown) {
  EXPECT_EQ(format_ms(80'562'332), "80.562");
  EXPECT_EQ(format_ms(1'000), "0.001");
  EXPECT_EQ(format_ms(400), "0.0004");
  EXPECT_EQ(format_ms(32), "0.000032");
  EXPECT_EQ(format_ms(-250), "-0.00025");
  EXPECT_EQ(format_ms(0), "0.000");
}

TEST(TextTable, PlainAsciiWhenAskedTo) {
  const std::string text = kernels().render({.width = 50, .utf8 = false});
  EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
      << text;
  EXPECT_NE(text.find("##########"), std::string::npos);
}

TEST(TextTable, CellsCannotBreakTheTable) {
  TextTable table({{"name", Align::kLeft}, {"n"}}, 2);
  table.row({"two\nlines\x1b[2J"});  // and a cell is missing
  table.note("… and 3 more");
  EXPECT_EQ(table.render({}), "  name           n\n  two lines?[2J\n  … and 3 more\n");
}

TEST(Bar, ClampsAndRounds) {
  EXPECT_EQ(bar(0, 10, true), "");
  EXPECT_EQ(bar(-1, 10, true), "");
  EXPECT_EQ(bar(7, 4, true), "████");
  EXPECT_EQ(bar(0.5, 1, true), "▌");
  EXPECT_EQ(bar(0.5, 4, false), "##");
}

}  // namespace
}  // namespace foretrace::report
