// Colour in headings and verdicts, letters that mean one thing, and -o as each verb means it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cli/colour.hpp"
#include "cli/verbs.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::cli {
namespace {

using testing::HasSubstr;

TEST(Colour, AsAskedForElseAsTheTerminalHasIt) {
  EXPECT_TRUE(wants_colour("auto", true));
  EXPECT_FALSE(wants_colour("auto", false));
  EXPECT_TRUE(wants_colour("always", false));
  EXPECT_FALSE(wants_colour("never", true));
}

TEST(Colour, HeadingsAndVerdictsOnly) {
  EXPECT_EQ(
      coloured("trace.json\n  GPU-bound: busy\n  row 1\n\nLayers  ms\n  conv  1\n"),
      "\x1b[1mtrace.json\x1b[0m\n\x1b[1;36m  GPU-bound: busy\x1b[0m\n  row 1\n\n\x1b[1mLayers  ms\x1b[0m\n  conv  1\n");
  EXPECT_THAT(coloured("a\nThe gate of 3 % holds: x.\n"), HasSubstr("\x1b[1;32mThe gate"));
  EXPECT_THAT(coloured("a\nThe gate of 3 % fails: x.\n"), HasSubstr("\x1b[1;31mThe gate"));
  EXPECT_THAT(coloured("a\nThe gate of 3 % is inconclusive: x.\n"), HasSubstr("\x1b[1;33mThe gate"));
  EXPECT_EQ(coloured(""), "");
}

TEST(Options, ALetterMeansTheSameInEveryVerb) {
  std::map<char, std::string> meaning;
  for (const Verb& verb : verbs()) {
    for (const Option& option : all_options(verb)) {
      if (option.letter == 0) continue;
      const auto [at, added] = meaning.emplace(option.letter, option.name);
      EXPECT_EQ(at->second, option.name) << "-" << option.letter << " of " << verb.name;
    }
  }
}

TEST(Options, NoneTwiceAndTheOutputOfEachVerbIsDescribed) {
  for (const Verb& verb : verbs()) {
    std::map<std::string, int> seen;
    for (const Option& option : all_options(verb)) {
      EXPECT_EQ(++seen[option.name], 1) << verb.name << " --" << option.name;
      if (verb.name == "report" && option.name == "output") {
        EXPECT_EQ(option.default_text, "report.html");
      }
      if (verb.name == "record" && option.name == "output") {
        EXPECT_EQ(option.default_text, "foretrace.json.gz");
      }
    }
  }
}

TEST(WhatIfNumbers, OutOfRangeAreRefused) {
  for (const char* use : {"batch:x=1e300", "batch:x=1.1e9", "cpu:x=1e12"}) {
    const auto parsed = whatif::parse_use(use);
    ASSERT_FALSE(parsed.has_value()) << use;
    EXPECT_THAT(parsed.error().message, HasSubstr("must be at most 1000000000"));
  }
  EXPECT_TRUE(whatif::parse_use("batch:x=1e9").has_value());
}

}  // namespace
}  // namespace foretrace::cli
