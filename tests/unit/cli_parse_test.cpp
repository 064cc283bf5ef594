#include <gtest/gtest.h>

#include <algorithm>

#include "cli/help.hpp"
#include "cli/verb.hpp"
#include "cli/verbs.hpp"

namespace foretrace::cli {
namespace {

Verb whatif_like() {
  return Verb{.name = "try",
              .about = "tries things",
              .details = "",
              .arguments = {{"TRACE", "a trace", 1, 1, {}}, {"WHATIF", "changes", 1, Argument::kAny, {}}},
              .options = {option(ValueType::kText, "mode", "MODE", "", "how").letter_is('m').one_of({"fast", "exact"}),
                          option(ValueType::kNumber, "scale", "X", "1", "by how much").at_least(0)},
              .examples = {},
              .shares = kStep | kReading,
              .run = nullptr};
}

Values parsed(const std::vector<std::string>& args) {
  Result<Values> values = parse(whatif_like(), args);
  EXPECT_TRUE(values) << (values ? "" : values.error().to_string());
  return values ? *values : Values{};
}

Error refused(const std::vector<std::string>& args) {
  const Result<Values> values = parse(whatif_like(), args);
  EXPECT_FALSE(values) << "accepted";
  if (values) return {};
  EXPECT_EQ(values.error().code, ErrorCode::kUsage);
  return values.error();
}

using Words = std::vector<std::string>;

TEST(CliParse, OptionsStandAnywhere) {
  for (const Words& args : {Words{"a.json", "amp", "--step", "3", "-q"}, Words{"--step=3", "-q", "a.json", "amp"},
                            Words{"a.json", "--step", "3", "-q", "amp"}}) {
    const Values values = parsed(args);
    EXPECT_EQ(values.integer("step"), 3);
    EXPECT_TRUE(values.flag("quiet"));
    EXPECT_FALSE(values.flag("json"));
    EXPECT_EQ(values.argument("TRACE"), Words{"a.json"});
    EXPECT_EQ(values.argument("WHATIF"), Words{"amp"});
  }
}

TEST(CliParse, ArgumentsGoLeftToRight) {
  const Values values = parsed({"a.json", "amp", "tf32", "cuda-graph"});
  EXPECT_EQ(values.argument("TRACE"), Words{"a.json"});
  EXPECT_EQ(values.argument("WHATIF"), (Words{"amp", "tf32", "cuda-graph"}));
}

TEST(CliParse, DashIsAnArgumentAndDoubleDashEndsOptions) {
  EXPECT_EQ(parsed({"-", "amp"}).argument("TRACE"), Words{"-"});
  EXPECT_EQ(parsed({"amp", "--", "--odd.json"}).argument("WHATIF"), Words{"--odd.json"});
}

TEST(CliParse, ValuesAreTyped) {
  const Values values = parsed({"a", "b", "--scale", "0.5", "-m", "fast", "--step", "-3"});
  EXPECT_EQ(values.number("scale"), 0.5);
  EXPECT_EQ(values.text("mode"), "fast");
  EXPECT_EQ(values.integer("step"), -3);
  EXPECT_EQ(values.integer("rank"), std::nullopt);
}

TEST(CliParse, WrongValuesNameTheOption) {
  EXPECT_EQ(refused({"a", "b", "--step", "x"}).message, "--step expects a whole number, not 'x'");
  EXPECT_EQ(refused({"a", "b", "--step", "1.5"}).message, "--step expects a whole number, not '1.5'");
  EXPECT_EQ(refused({"a", "b", "--step", "99999999999999999999"}).message,
            "--step expects a whole number, not '99999999999999999999'");
  EXPECT_EQ(refused({"a", "b", "--scale", "fast"}).message, "--scale expects a number, not 'fast'");
  EXPECT_EQ(refused({"a", "b", "--scale", "nan"}).message, "--scale expects a number, not 'nan'");
  EXPECT_EQ(refused({"a", "b", "--scale", "-1"}).message, "--scale expects at least 0, not '-1'");
  EXPECT_EQ(refused({"a", "b", "--rank", "-1"}).message, "--rank expects at least 0, not '-1'");
  const Error choice = refused({"a", "b", "--mode", "fats"});
  EXPECT_EQ(choice.message, "--mode expects one of fast, exact, not 'fats'");
  EXPECT_EQ(choice.hint, "did you mean 'fast'?");
}

TEST(CliParse, MissingAndRepeatedValues) {
  EXPECT_EQ(refused({"a", "b", "--step"}).message, "--step needs a value");
  EXPECT_EQ(refused({"a", "b", "--step", "1", "--step", "2"}).message, "--step is given 2 times");
}

TEST(CliParse, UnknownOptionsSuggest) {
  const Error slip = refused({"a", "b", "--stepp", "3"});
  EXPECT_EQ(slip.message, "try has no option --stepp");
  EXPECT_EQ(slip.hint, "did you mean '--step'?");
  EXPECT_EQ(refused({"a", "b", "--stepp=3"}).message, "try has no option --stepp");
  EXPECT_EQ(refused({"a", "b", "-z"}).message, "try has no option -z");
  EXPECT_EQ(refused({"a", "b", "--batch", "3"}).hint, "`foretrace summary` has it");
}

TEST(CliParse, TooFewAndTooManyArguments) {
  EXPECT_EQ(refused({}).message, "try needs a TRACE");
  EXPECT_EQ(refused({"a"}).message, "try needs a WHATIF");
  EXPECT_EQ(refused({"a"}).hint, "usage: foretrace try TRACE WHATIF...");
  const Result<Values> many = parse(completion_verb(), {"bash", "more"});
  ASSERT_FALSE(many);
  EXPECT_EQ(many.error().message, "completion takes no further argument 'more'");
}

TEST(CliParse, ArgumentsMayBeChoices) {
  const Result<Values> slip = parse(completion_verb(), {"bsh"});
  ASSERT_FALSE(slip);
  EXPECT_EQ(slip.error().hint, "did you mean 'bash'?");
  const Result<Values> none = parse(completion_verb(), {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().hint, "one of: bash, zsh, fish");
}

TEST(CliVerbs, DescribeThemselves) {
  for (const Verb& verb : verbs()) {
    EXPECT_FALSE(verb.about.empty()) << verb.name;
    EXPECT_FALSE(verb.about.ends_with('.')) << verb.name;
    EXPECT_FALSE(verb.examples.empty()) << verb.name;
    const bool in_python = verb.name == "record" || verb.name == "calibrate";
    EXPECT_EQ(verb.run == nullptr, in_python) << verb.name;
    EXPECT_EQ(find_verb(verb.name), &verb);
    EXPECT_NE(overview_help(100).find(usage_line(verb)), std::string::npos);
    const std::string help = verb_help(verb, 80);
    std::vector<std::string> seen;
    for (const Option& option : all_options(verb)) {
      EXPECT_NE(help.find("--" + option.name), std::string::npos) << verb.name << " --" << option.name;
      EXPECT_EQ(std::count(seen.begin(), seen.end(), option.name), 0) << verb.name << " has two of --" << option.name;
      seen.push_back(option.name);
      EXPECT_EQ(option.type == ValueType::kFlag, option.value_name.empty()) << option.name;
    }
  }
}

// Examples in the help are real: they parse.
TEST(CliVerbs, ExamplesParse) {
  for (const Verb& verb : verbs()) {
    for (const Example& example : verb.examples) {
      std::string line = example.command.substr(example.command.find("foretrace ") + 10);
      line = line.substr(0, line.find_first_of("|>)&"));
      Words words;
      for (std::size_t at = 0; at < line.size();) {
        const std::size_t end = std::min(line.find(' ', at), line.size());
        if (end > at) words.push_back(line.substr(at, end - at));
        at = end + 1;
      }
      ASSERT_EQ(words.front(), verb.name);
      const Result<Values> values = parse(verb, Words(words.begin() + 1, words.end()));
      EXPECT_TRUE(values) << example.command << ": " << (values ? "" : values.error().to_string());
    }
  }
}

}  // namespace
}  // namespace foretrace::cli
