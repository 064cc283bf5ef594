#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/json_writer.hpp"

namespace foretrace::report {
namespace {

template <class T>
std::string written(const T& value) {
  std::string out;
  JsonWriter(out).value(value);
  return out;
}

std::string as_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonWriter, SpreadsOuterLevelsAndKeepsRowsOnOneLine) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().member("schema", 1).key("steps").begin_array();
  json.begin_object().member("step", "ProfilerStep#4").member("traced_ms", 80.562332).end_object();
  json.begin_object().member("step", "b").key("list").begin_array().value(1).value(2).end_array().end_object();
  json.end_array().key("nothing").begin_array().end_array().end_object();
  EXPECT_EQ(out,
            "{\n"
            "  \"schema\": 1,\n"
            "  \"steps\": [\n"
            "    {\"step\": \"ProfilerStep#4\", \"traced_ms\": 80.562332},\n"
            "    {\"step\": \"b\", \"list\": [1, 2]}\n"
            "  ],\n"
            "  \"nothing\": []\n"
            "}");
}

TEST(JsonWriter, OneLineWhenAskedTo) {
  std::string out;
  JsonWriter json(out, 0);
  json.begin_object()
      .member("a", true)
      .member("b", std::optional<int>{})
      .key("c")
      .begin_object()
      .end_object()
      .end_object();
  EXPECT_EQ(out, "{\"a\": true, \"b\": null, \"c\": {}}");
}

TEST(JsonWriter, NumbersKeepAllDigitsAndAreNeverNan) {
  EXPECT_EQ(written(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(written(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(written(0.1), "0.1");
  EXPECT_EQ(written(std::nan("")), "null");
  EXPECT_EQ(written(-std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(written(std::optional<double>(2.5)), "2.5");
}

TEST(JsonWriter, EscapesWhatJsonAsksFor) {
  EXPECT_EQ(as_json("a\"b\\c\n\t\r"), "\"a\\\"b\\\\c\\n\\t\\r\"");
  EXPECT_EQ(as_json(std::string_view("\0\x1b\x7f", 3)), "\"\\u0000\\u001b\\u007f\"");
  EXPECT_EQ(as_json("größe 層 🚀"), "\"größe 層 🚀\"");
}

TEST(JsonWriter, InvalidUtf8BecomesTheReplacementCharacter) {
  EXPECT_EQ(as_json("a\xff"
                    "b"),
            "\"a\xEF\xBF\xBD"
            "b\"");
  EXPECT_EQ(as_json("\xc0\xaf"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");                  // overlong
  EXPECT_EQ(as_json("\xed\xa0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // surrogate
  EXPECT_EQ(as_json("\xe5\xb1"), "\"\xEF\xBF\xBD\"");                              // cut off
}

TEST(JsonWriter, AnyBytesGiveJsonThatReadsBack) {
  EXPECT_TRUE(rc::check("any bytes give valid JSON", [](const std::string& text) {
    simdjson::dom::parser parser;
    simdjson::padded_string document(as_json(text));
    std::string_view back;
    RC_ASSERT(!parser.parse(document).get(back));
    const bool ascii =
        std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
    if (ascii) RC_ASSERT(back == text);
  }));
}

TEST(JsonWriter, AnyDoubleReadsBackUnchanged) {
  EXPECT_TRUE(rc::check("doubles survive", [](double number) {
    RC_PRE(std::isfinite(number));
    RC_ASSERT(std::strtod(written(number).c_str(), nullptr) == number);
  }));
}

}  // namespace
}  // namespace foretrace::report
