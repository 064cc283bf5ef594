// What-ifs of plugins, in addition to the catalogue's: known wherever what-ifs are asked for. And the example of
// docs/internals/adding-a-whatif.md (half_batchnorm.cpp), which is one file and shows in help, lists, the documentation's table and JSON.

#include <cstdio>

#include "cli/verb.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "search/candidates.hpp"

namespace foretrace {
namespace {

using testing::HasSubstr;
using whatif::WhatIf;

struct Said {
  int status = 0;
  std::string out, err;
};

Said foretrace(const std::vector<std::string>& args, const cli::Extensions& extensions = {}) {
  std::FILE* out = std::tmpfile();
  std::FILE* err = std::tmpfile();
  Said said;
  said.status = cli::run(args, {.out = out, .err = err}, extensions);
  const auto read = [](std::FILE* file) {
    std::string text(static_cast<std::size_t>(std::ftell(file)), '\0');
    std::rewind(file);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  };
  said.out = read(out);
  said.err = read(err);
  return said;
}

WhatIf made(std::string name, std::vector<std::string> advise, whatif::Changes changes = whatif::Changes::kCosts) {
  return {.name = std::move(name),
          .about = "of a plugin",
          .parameters = {{"x", "factor", "0.5", {}, whatif::ParameterType::kNumber}},
          .assumes = {},
          .source = {},
          .not_modelled = {},
          .needs = {},
          .changes = changes,
          .code = {},
          .advise = std::move(advise),
          .validated = false,
          .apply = [](whatif::Model&, whatif::Draft& draft, const whatif::Parameters& p) -> Status {
            draft.scale(draft.select({.gpu = true}), p.number("x"));
            return {};
          }};
}

std::vector<std::string> candidate_texts() {
  std::vector<std::string> texts;
  for (const whatif::Use& use : search::candidates()) texts.push_back(use.text);
  return texts;
}

// Others of this program must not find it among their candidates.
class Added : public testing::Test {
 protected:
  void TearDown() override { ASSERT_TRUE(whatif::add_whatif(made("test-added", {}))); }
};

TEST_F(Added, UsesItAdvisesAreCandidates) {
  ASSERT_TRUE(whatif::add_whatif(made("test-added", {"test-added:x=0.25"})));
  EXPECT_THAT(candidate_texts(), testing::Contains("test-added:x=0.25"));
  ASSERT_TRUE(whatif::add_whatif(made("test-added", {})));
  EXPECT_THAT(candidate_texts(), testing::Not(testing::Contains(HasSubstr("test-added"))));
}

TEST_F(Added, UsesThatAreNoneOfItsOwnAreRefused) {
  EXPECT_THAT(whatif::add_whatif(made("test-added", {"amp"})).error().message, HasSubstr("not a use of it"));
  EXPECT_THAT(whatif::add_whatif(made("test-added", {"test-added:y=1"})).error().message,
              HasSubstr("no parameter 'y'"));
  EXPECT_THAT(whatif::add_whatif(made("test-added", {"test-added:x=z"})).error().message,
              HasSubstr("must be a number"));
}

TEST_F(Added, IsOneOfThoseThatChangeThisAndNeverTheCataloguesOwn) {
  ASSERT_TRUE(whatif::add_whatif(made("test-added", {}, whatif::Changes::kRecomputation)));
  std::vector<std::string> names;
  for (const WhatIf* w : whatif::whatifs_that_change(whatif::Changes::kRecomputation)) names.push_back(w->name);
  EXPECT_THAT(names, testing::IsSupersetOf({"checkpoint", "test-added"}));
  EXPECT_EQ(whatif::first_whatif_that_changes(whatif::Changes::kRecomputation).name, "checkpoint");
}

TEST(Plugins, AreLoadedInOrderBeforeTheVerbRuns) {
  std::vector<std::string> files;
  cli::Extensions extensions;
  extensions.load_plugin = [&](const std::string& file) -> Status {
    files.push_back(file);
    return whatif::add_whatif(made("test-added", {}));
  };
  const Said said = foretrace({"list", "whatifs", "test-added", "--plugin", "a.py", "--plugin=b.py"}, extensions);
  EXPECT_EQ(said.status, cli::kDone) << said.err;
  EXPECT_THAT(files, testing::ElementsAre("a.py", "b.py"));
  EXPECT_THAT(said.out, HasSubstr("of a plugin"));
}

TEST(Plugins, ThatCannotBeLoadedEndTheCommand) {
  cli::Extensions extensions;
  extensions.load_plugin = [](const std::string& file) -> Status {
    return fail(ErrorCode::kUnreadable, file + ":7: it is broken", "mend it");
  };
  const Said said = foretrace({"list", "whatifs", "--plugin", "a.py"}, extensions);
  EXPECT_EQ(said.status, cli::kUnreadableInput);
  EXPECT_THAT(said.err, HasSubstr("a.py:7: it is broken"));
}

TEST(Plugins, AreRefusedWhereNobodyLoadsThemAndByVerbsWithoutWhatIfs) {
  EXPECT_EQ(foretrace({"list", "whatifs", "--plugin", "a.py"}).status, cli::kWrongUsage);
  cli::Extensions extensions;
  extensions.load_plugin = [](const std::string&) -> Status { return {}; };
  const Said replay = foretrace({"replay", "none.json", "--plugin", "a.py"}, extensions);
  EXPECT_EQ(replay.status, cli::kWrongUsage);
  EXPECT_THAT(replay.err, HasSubstr("replay has no option --plugin"));
}

TEST(DocumentedExample, ShowsInListsHelpTheTableAndJson) {
  EXPECT_THAT(foretrace({"list", "whatifs"}).out, HasSubstr("half-batchnorm[:x=]"));
  const Said full = foretrace({"help", "half-batchnorm"});
  EXPECT_EQ(full.status, cli::kDone) << full.err;
  EXPECT_THAT(full.out, HasSubstr("factor on their time; default 0.5"));
  EXPECT_THAT(full.out, HasSubstr("CPU unchanged, GPU modelled, memory not modelled"));
  EXPECT_THAT(
      foretrace({"list", "whatifs", "--markdown"}).out,
      HasSubstr("| `half-batchnorm[:x=]` | batch-norm kernels read their input once | kernels | a backward pass | "
                "Jung et al. 2018 |"));
  EXPECT_THAT(foretrace({"list", "whatifs", "half-batchnorm", "--json"}).out,
              HasSubstr(R"("parts": {"cpu": "unchanged", "gpu": "modelled", "memory": "not modelled"})"));
  const Said wrong = foretrace({"whatif", "none.json", "half-batchnrom"});
  EXPECT_EQ(wrong.status, cli::kWrongUsage);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'half-batchnorm'"));
}

TEST(Listing, RefusesNamesOfWhatCannotBeNamed) {
  EXPECT_EQ(foretrace({"list", "devices", "H200-SXM"}).status, cli::kWrongUsage);
  EXPECT_EQ(foretrace({"list", "fabrics", "--markdown"}).status, cli::kWrongUsage);
  EXPECT_EQ(foretrace({"list", "whatifs", "ampp"}).status, cli::kWrongUsage);
}

}  // namespace
}  // namespace foretrace
