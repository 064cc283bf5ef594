// The reader of device and fabric files: what it takes, what it refuses and where.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "hardware/toml_tables.hpp"

namespace foretrace::hardware {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TomlTable read(std::string_view text) {
  Result<TomlTable> t = parse_toml(text, "x.toml", "a hint");
  EXPECT_TRUE(t) << text << ": " << (t ? "" : t.error().message);
  return t ? std::move(*t) : TomlTable();
}

std::string refused(std::string_view text) {
  const Result<TomlTable> t = parse_toml(text, "x.toml", "a hint");
  EXPECT_FALSE(t) << text;
  if (t) return {};
  EXPECT_EQ(t.error().code, ErrorCode::kUnreadable);
  EXPECT_EQ(t.error().file, "x.toml");
  EXPECT_EQ(t.error().hint, "a hint");
  return t.error().message;
}

TEST(Toml, ValuesOfEveryKind) {
  const TomlTable t = read(
      "\xEF\xBB\xBF# a comment, with \xC3\xBC in it\r\n"
      "whole = 1000 # of it\nhalf = -0.5\nsmall = 1.5e-3\n"
      "yes = true\nno=false\n\"quoted name\" = 'a \"literal\\ text'\n"
      "text = \"a # quote\\\" and \\\\\"\nnames = [\n  \"a\", # first\n  'b',\n]\nmore = ['c']\n");
  EXPECT_EQ(t.number("whole"), 1000);
  EXPECT_EQ(t.number("half"), -0.5);
  EXPECT_EQ(t.number("small"), 1.5e-3);
  EXPECT_TRUE(t.flag("yes"));
  EXPECT_FALSE(t.flag("no"));
  EXPECT_EQ(t.text("quoted name"), "a \"literal\\ text");
  EXPECT_EQ(t.text("text"), "a # quote\" and \\");
  EXPECT_THAT(t.lists.at("names"), ElementsAre("a", "b"));
  EXPECT_THAT(t.lists.at("more"), ElementsAre("c"));
}

TEST(Toml, TablesOneAndSeveral) {
  const TomlTable t = read("top = 1\n[board]\npower = 700\n[[level]]\ngbs = 1\n[[level]] # second\ngbs = 3\n");
  EXPECT_EQ(t.number("top"), 1);
  EXPECT_EQ(t.table("board").number("power"), 700);
  ASSERT_EQ(t.tables.at("level").size(), 2u);
  EXPECT_EQ(t.tables.at("level")[0].number("gbs"), 1);
  EXPECT_EQ(t.tables.at("level")[1].number("gbs"), 3);
  EXPECT_TRUE(t.table("none").values.empty());
}

TEST(Toml, WhatIsRefusedNamesItsLine) {
  EXPECT_THAT(refused("a = 1\na = 2\n"), HasSubstr("line 2: 'a' is there twice"));
  EXPECT_THAT(refused("[t]\n[t]\n"), HasSubstr("line 2: the table 't' is there twice"));
  EXPECT_THAT(refused("[t]\n[[t]]\n"), HasSubstr("one table and several"));
  EXPECT_THAT(refused("t = 1\n[t]\n"), HasSubstr("line 2"));
  EXPECT_THAT(refused("t.a = 1\n"), HasSubstr("a = is expected"));
  EXPECT_THAT(refused("[compute"), HasSubstr("line 1: a table's name is not closed"));
  EXPECT_THAT(refused("a ="), HasSubstr("has no value"));
  EXPECT_THAT(refused("a 1\n"), HasSubstr("a = is expected"));
  EXPECT_THAT(refused("= 1\n"), HasSubstr("a name is expected"));
  EXPECT_THAT(refused("a = 1 2\n"), HasSubstr("something follows"));
  EXPECT_THAT(refused("a = ['b', 'c'\n"), HasSubstr("a list is not closed"));
  EXPECT_THAT(refused("a = ['b' 'c']\n"), HasSubstr("a list is not closed"));
  EXPECT_THAT(refused("a = [1, 2]\n"), HasSubstr("texts in quotes"));
  EXPECT_THAT(refused("a = {b = 1}\n"), HasSubstr("is no number"));
  EXPECT_THAT(refused("a = \"b\nc\"\n"), HasSubstr("line 1: a text is not closed"));
  EXPECT_THAT(refused("a = \"\\q\"\n"), HasSubstr("backslash"));
  EXPECT_THAT(refused("a = \"b\\"), HasSubstr("backslash"));
  EXPECT_THAT(refused("a = \"\"\"b\"\"\"\n"), HasSubstr("several lines"));
  EXPECT_THAT(refused("a = \"\x01\"\n"), HasSubstr("control character"));
  EXPECT_THAT(refused("# \x7F\n"), HasSubstr("control character"));
  EXPECT_THAT(refused("a = \xFF\n"), HasSubstr("UTF-8"));
  EXPECT_THAT(refused(std::string("a = 1\0", 6)), HasSubstr("control character"));
  EXPECT_THAT(refused("a = " + std::string(100'000, '[')), HasSubstr("texts in quotes"));
  for (const char* number : {"0x1", "1_000", "inf", "nan", "1e999", "1979-05-27", "12:30:00", "--1", "1e", "yes"}) {
    EXPECT_THAT(refused(std::string("a = ") + number), HasSubstr("is no number")) << number;
  }
}

// Whatever the bytes, there is an answer; and what was read is read the same with blanks and comments in between.
TEST(Toml, AnyTextIsTakenOrRefused) {
  rc::check([] {
    const auto pieces = *rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
        "a", "b", ".", "=", " ", "\n", "[", "]", "[[", "]]", "{", "}", ",", "\"x\"", "'y'", "1", "0o2", "true", "#c\n",
        "\\u02ca", "\"", "\xCB\x8A", "\x01", "\r\n", "-"));
    std::string text;
    for (const std::string& p : pieces) text += p;
    const Result<TomlTable> t = parse_toml(text, "x.toml", "");
    if (!t) {
      RC_ASSERT(t.error().message.starts_with("line "));
      return;
    }
    RC_ASSERT(parse_toml("# first\n" + text + "\n\t# last", "x.toml", "").has_value());
  });
}

}  // namespace
}  // namespace foretrace::hardware
