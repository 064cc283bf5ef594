#include <gtest/gtest.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/completion.hpp"
#include "cli/output.hpp"
#include "cli/progress_bar.hpp"
#include "cli/verbs.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/version.hpp"
#include "report_sample.hpp"

namespace foretrace::cli {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string out, err;
};

Outcome run_with(const std::vector<std::string>& args, Terminal terminal = {}) {
  char *out = nullptr, *err = nullptr;
  std::size_t out_size = 0, err_size = 0;
  terminal.out = open_memstream(&out, &out_size);
  terminal.err = open_memstream(&err, &err_size);
  Outcome outcome;
  outcome.code = run(args, terminal);
  std::fclose(terminal.out);
  std::fclose(terminal.err);
  outcome.out.assign(out, out_size);
  outcome.err.assign(err, err_size);
  std::free(out);
  std::free(err);
  return outcome;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class Cli : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "foretrace-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    trace_ = write("trace.json", report::Sample{}.json());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string read(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator{}));
  }

  fs::path folder_;
  std::string trace_;
};

/// Error JSON on stdout, with the exit code of the text form.
void expect_json_error(const std::vector<std::string>& args, int code, std::string_view name) {
  std::vector<std::string> with_json = args;
  with_json.emplace_back("--json");
  const Outcome outcome = run_with(with_json);
  EXPECT_EQ(outcome.code, code);
  EXPECT_EQ(outcome.err, "");
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  ASSERT_FALSE(parser.parse(outcome.out).get(document)) << outcome.out;
  EXPECT_EQ(std::int64_t(document["schema"]), 1);
  EXPECT_EQ(std::string_view(document["error"]["code"]), name);
  EXPECT_FALSE(std::string_view(document["error"]["message"]).empty());
}

TEST_F(Cli, DoctorAndSummary) {
  const Outcome doctor = run_with({"doctor", trace_});
  EXPECT_EQ(doctor.code, kDone) << doctor.err;
  EXPECT_TRUE(contains(doctor.out, "Good for predictions."));
  const Outcome summary = run_with({"summary", trace_});
  EXPECT_EQ(summary.code, kDone) << summary.err;
  EXPECT_TRUE(contains(summary.out, "as traced: 0.900 ms"));
}

TEST_F(Cli, OptionsBeforeAndAfterTheVerb) {
  const std::string after = run_with({"summary", trace_, "--json", "--step", "4"}).out;
  EXPECT_TRUE(contains(after, "\"step\": \"ProfilerStep#4\""));
  EXPECT_EQ(run_with({"--json", "--step", "4", "summary", trace_}).out, after);
  EXPECT_EQ(run_with({"--step=4", "summary", "--json", trace_}).out, after);
}

TEST_F(Cli, JsonOfEveryVerbStartsWithTheSchema) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"doctor", trace_},
                                               {"summary", trace_},
                                               {"list", "formats"},
                                               {"completion", "bash"},
                                               {"--version"}}) {
    std::vector<std::string> with_json = args;
    with_json.emplace_back("--json");
    const Outcome outcome = run_with(with_json);
    EXPECT_EQ(outcome.code, kDone);
    simdjson::dom::parser parser;
    simdjson::dom::object document;
    ASSERT_FALSE(parser.parse(outcome.out).get(document)) << outcome.out;
    EXPECT_EQ((*document.begin()).key, "schema");
  }
}

TEST_F(Cli, HelpAndVersion) {
  EXPECT_EQ(run_with({"--help"}).code, kDone);
  EXPECT_EQ(run_with({"help"}).out, run_with({"-h"}).out);
  EXPECT_EQ(run_with({"help", "doctor"}).out, run_with({"doctor", "--help"}).out);
  EXPECT_EQ(run_with({"--version"}).out, std::string("foretrace ") + FORETRACE_VERSION + "\n");
  const Outcome bare = run_with({});
  EXPECT_EQ(bare.code, kWrongUsage);
  EXPECT_EQ(bare.out, "");
  EXPECT_TRUE(contains(bare.err, "usage: foretrace VERB"));
}

TEST_F(Cli, WrongUsageIsTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"sumary", trace_}, "did you mean 'summary'?"},
      {{trace_}, "a verb comes first: `foretrace summary"},
      {{"frobnicate"}, "verbs: doctor, summary"},
      {{"help", "sumary"}, "did you mean 'summary'?"},
      {{"--quiet"}, "a verb is missing"},
      {{"--jsno", "doctor", trace_}, "did you mean '--json'?"},
      {{"doctor"}, "doctor needs a TRACE"},
      {{"doctor", trace_, "--step", "3"}, "`foretrace summary` has it"},
      {{"summary", trace_, "--top", "0"}, "--top expects at least 1, not '0'"},
      {{"summary", trace_, "--step", "99"}, "the trace has no step 99"},
      {{"summary", trace_, "--rank", "7"}, "no trace of rank 7 among those given"},
      {{"list", "format"}, "did you mean 'formats'?"},
  };
  for (const auto& [args, message] : cases) {
    const Outcome outcome = run_with(args);
    EXPECT_EQ(outcome.code, kWrongUsage) << message;
    EXPECT_EQ(outcome.out, "") << message;
    EXPECT_TRUE(contains(outcome.err, message)) << outcome.err;
    expect_json_error(args, kWrongUsage, "usage");
  }
}

TEST_F(Cli, UnreadableInputIsThree) {
  const std::string whole = report::Sample{}.json();
  write("folder/readme.txt", "nothing here");
  fs::create_directories(folder_ / "empty");
  const std::vector<std::pair<std::string, std::string>> cases{
      {path("trcae.json"), "did you mean " + trace_ + "?"},
      {path("trace"), "did you mean " + trace_ + "?"},
      {path("nowhere/trace.json"), "does not exist either"},
      {path("empty"), "the folder holds no files"},
      {path("folder"), "none of the"},
      {write("void.json", ""), "the file is empty"},
      {write("words.json", "not JSON"), "no format foretrace reads"},
      {write("other.json", "{\"a\":1}"), "traceEvents"},
      {write("cut.json", whole.substr(0, whole.size() / 2)), "--partial"},
  };
  for (const auto& [file, message] : cases) {
    const Outcome outcome = run_with({"doctor", file});
    EXPECT_EQ(outcome.code, kUnreadableInput) << file;
    EXPECT_EQ(outcome.out, "") << file;
    EXPECT_TRUE(contains(outcome.err, message)) << outcome.err;
    expect_json_error({"summary", file}, kUnreadableInput, "unreadable");
  }
}

TEST_F(Cli, NoPermissionSaysSo) {
  fs::permissions(trace_, fs::perms::none);
  fs::permissions(folder_, fs::perms::all);
  const bool root = geteuid() == 0;  // who may read everything, so become somebody else
  constexpr uid_t kNobody = 65534;
  if (root) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const Outcome outcome = run_with({"doctor", trace_});
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(outcome.code, kUnreadableInput);
  EXPECT_TRUE(contains(outcome.err, "ermission denied")) << outcome.err;
}

TEST_F(Cli, CutOffFilesWithPartial) {
  const std::string whole = report::Sample{}.json();
  const std::string cut = write("cut.json", whole.substr(0, whole.size() - 100));
  const Outcome outcome = run_with({"doctor", cut, "--partial"});
  EXPECT_EQ(outcome.code, kDone) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "[partial]"));
  EXPECT_EQ(run_with({"doctor", cut, "--partial", "--strict"}).code, kUnreadableInput);
}

TEST_F(Cli, NothingToAnswerIsFour) {
  const std::string empty = write("empty.json", "{\"traceEvents\":[]}");
  EXPECT_EQ(run_with({"summary", empty}).code, kDeclined);
  EXPECT_EQ(run_with({"doctor", empty}).code, kDeclined);
  expect_json_error({"summary", empty}, kDeclined, "declined");
}

TEST_F(Cli, SeveralTraces) {
  write("job/rank1.json", report::Sample{.world_of_one = false}.json());  // rank 1 of 4
  write("job/rank0.json", report::Sample{}.json());
  const Outcome doctor = run_with({"doctor", path("job")});
  EXPECT_EQ(doctor.code, kDone) << doctor.err;
  EXPECT_TRUE(contains(doctor.out, "Together: 2 files; ranks 0-1 of 4; missing: 2-3.")) << doctor.out;
  const Outcome lowest = run_with({"summary", path("job")});
  EXPECT_TRUE(contains(lowest.out, "rank 0 of 1"));
  EXPECT_TRUE(contains(lowest.err, "note: 2 traces given")) << lowest.err;
  EXPECT_EQ(run_with({"summary", path("job"), "--quiet"}).err, "");
  EXPECT_TRUE(contains(run_with({"summary", path("job"), "--rank", "1"}).out, "rank 1 of 4"));
}

TEST_F(Cli, OneBadFileAmongSeveralDoesNotHideTheOthers) {
  const std::string bad = write("bad.json", "not JSON");
  const Outcome text = run_with({"doctor", trace_, bad});
  EXPECT_EQ(text.code, kUnreadableInput);
  EXPECT_TRUE(contains(text.out, "Good for predictions."));
  EXPECT_TRUE(contains(text.out, "error: " + bad));
  const Outcome json = run_with({"doctor", trace_, bad, "--json"});
  EXPECT_EQ(json.code, kUnreadableInput);
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  ASSERT_FALSE(parser.parse(json.out).get(document)) << json.out;
  EXPECT_EQ(std::string_view(document["traces"].at(1)["error"]["code"]), "unreadable");
}

TEST_F(Cli, OutputFilesAreWholeOrNotThere) {
  const std::string target = path("out.json");
  EXPECT_EQ(run_with({"summary", trace_, "--json", "-o", target}).code, kDone);
  const std::string written = read(target);
  EXPECT_EQ(written, run_with({"summary", trace_, "--json"}).out);
  // A failing command leaves the file as it was, and no temporary file behind.
  EXPECT_EQ(run_with({"summary", trace_, "--step", "99", "-o", target}).code, kWrongUsage);
  EXPECT_EQ(read(target), written);
  EXPECT_EQ(files(), 2u);
  EXPECT_TRUE(contains(run_with({"summary", trace_, "-o", "-"}).out, "ProfilerStep#3"));
}

TEST_F(Cli, OutputThroughALinkAndToADevice) {
  const std::string target = write("real.txt", "old");
  fs::create_symlink("real.txt", folder_ / "link.txt");
  EXPECT_EQ(run_with({"list", "formats", "-o", path("link.txt")}).code, kDone);
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.txt"));
  EXPECT_TRUE(contains(read(target), "kineto"));
  EXPECT_EQ(run_with({"list", "formats", "-o", "/dev/null"}).code, kDone);
}

TEST_F(Cli, OutputThatCannotBeWritten) {
  const Outcome folder = run_with({"list", "formats", "-o", folder_.string()});
  EXPECT_EQ(folder.code, kWrongUsage);
  EXPECT_TRUE(contains(folder.err, "it is a folder")) << folder.err;
  const Outcome nowhere = run_with({"list", "formats", "-o", path("a/b.json")});
  EXPECT_EQ(nowhere.code, kWrongUsage);
  EXPECT_TRUE(contains(nowhere.err, "mkdir -p")) << nowhere.err;
  EXPECT_EQ(run_with({"list", "formats", "-o", ""}).code, kWrongUsage);
  EXPECT_FALSE(fs::exists(folder_ / "a"));  // no folder is made
  // A full disk is nobody's slip.
  const Outcome full = run_with({"list", "formats", "-o", "/dev/full"});
  EXPECT_EQ(full.code, kCannotWrite);
  EXPECT_TRUE(contains(full.err, "No space left")) << full.err;
}

TEST_F(Cli, AStepWithoutGpuWorkIsSaidAlikeByEveryVerb) {
  report::Sample sample{.kernels = false};
  for (const bool device : {true, false}) {
    sample.device = device;
    const std::string trace = write("cpu.json", sample.json());
    const std::vector<std::vector<std::string>> declined{{"doctor", trace},
                                                         {"whatif", trace, "amp", "batch:x=2"},
                                                         {"whatif", trace, "amp", "fused-optimizer", "--stack"},
                                                         {"advise", trace},
                                                         {"gpus", trace},
                                                         {"scale", trace, "--workers", "2", "--fabric", "25GbE"},
                                                         {"optimize", trace},
                                                         {"export", trace, "amp"}};
    for (const auto& args : declined) {
      const Outcome outcome = run_with(args);
      EXPECT_EQ(outcome.code, kDeclined) << args[0];
      std::string said = outcome.out + outcome.err;  // on one line, wherever it was wrapped
      for (std::size_t at = 0; (at = said.find("\n    ")) != std::string::npos;) said.replace(at, 5, " ");
      EXPECT_TRUE(contains(said, "no GPU work in this step")) << args[0] << outcome.out;
      EXPECT_FALSE(contains(outcome.out + outcome.err, "records no shapes")) << args[0];
    }
    for (const char* verb : {"summary", "replay", "ranks"}) {
      const Outcome outcome = run_with({verb, trace});
      EXPECT_EQ(outcome.code, kDone) << verb << outcome.err;
      EXPECT_TRUE(contains(outcome.out, "no GPU work in this step")) << verb << outcome.out;
    }
  }
}

TEST_F(Cli, AnImpossibleMeasuredStepIsRefusedWithTheLikelySlip) {
  for (const char* verb : {"summary", "replay", "advise", "gpus", "optimize"}) {
    const Outcome outcome = run_with({verb, trace_, "--measured-ms", "1e300"});
    EXPECT_EQ(outcome.code, kWrongUsage) << verb;
    EXPECT_TRUE(contains(outcome.err, "a step of 1e+300 ms is impossible")) << outcome.err;
    EXPECT_TRUE(contains(outcome.err, "seconds?")) << outcome.err;
  }
  const Outcome micro = run_with({"replay", trace_, "--measured-ms", "800"});
  EXPECT_TRUE(contains(micro.err, "microseconds?")) << micro.err;
  EXPECT_EQ(run_with({"replay", trace_, "--measured-ms", "0.8"}).code, kDone);
}

TEST_F(Cli, Utf16IsNamed) {
  const std::string json = report::Sample{}.json();
  for (const bool mark : {true, false}) {
    for (const bool big : {true, false}) {
      std::string text = mark ? (big ? "\xFE\xFF" : "\xFF\xFE") : "";
      for (const char c : json) text += big ? std::string{'\0', c} : std::string{c, '\0'};
      const Outcome outcome = run_with({"doctor", write("utf16.json", text)});
      EXPECT_EQ(outcome.code, kUnreadableInput);
      EXPECT_TRUE(contains(outcome.err, big ? "UTF-16BE" : "UTF-16LE")) << outcome.err;
      EXPECT_TRUE(contains(outcome.err, "iconv -f UTF-16")) << outcome.err;
    }
  }
}

TEST(CliOutput, AReaderThatLeavesIsNotAnError) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const auto previous = std::signal(SIGPIPE, SIG_IGN);
  std::FILE* out = fdopen(ends[1], "w");
  EXPECT_TRUE(write_output(std::nullopt, out, "hello"));
  std::fclose(out);
  std::signal(SIGPIPE, previous);
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  EXPECT_FALSE(write_output(std::nullopt, full, "hello"));
  std::fclose(full);
}

TEST_F(Cli, MessagesCannotControlTheTerminal) {
  const Outcome outcome = run_with({"doctor", path("\x1b[2Jevil.json")});
  EXPECT_EQ(outcome.code, kUnreadableInput);
  EXPECT_FALSE(contains(outcome.err, "\x1b"));
}

TEST(CliProgress, SaysHowFarHowFastAndHowLong) {
  EXPECT_EQ(ProgressBar::line("reading t.json", 500'000'000, 1'000'000'000, kBytes, 2, 100),
            "reading t.json  [##########----------]   50%  250.0 MB/s  2 s left");
  EXPECT_EQ(ProgressBar::line("reading -", 1'500'000, 0, kBytes, 1.5, 100), "reading -  1.5 MB  1.0 MB/s");
  EXPECT_TRUE(contains(ProgressBar::line("x", 1, 1'000'000'000, kBytes, 1, 100), "16666667 min left"));
  EXPECT_LT(ProgressBar::line(std::string(300, 'x'), 5, 10, kBytes, 1, 80).size(), 80u);
}

TEST(CliProgress, CountsWhatItShows) {
  EXPECT_EQ(ProgressBar::line("replaying t.json", 3, 12, "steps", 3, 100),
            "replaying t.json  [#####---------------]  3 of 12 steps  9 s left");
  EXPECT_EQ(ProgressBar::line("trying changes", 1'200, 0, "predictions", 3, 100), "trying changes  1,200 predictions");
}

// A child draws a bar and is stopped in the middle of it.
TEST(CliProgress, TheLineGoesOnCtrlC) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::signal(SIGINT, SIG_DFL);
    std::FILE* err = fdopen(ends[1], "w");
    ProgressBar bar(err, 80);
    bar.update("replaying", 0, 9, "steps");
    ::usleep(1'100'000);
    bar.update("replaying", 3, 9, "steps");
    std::raise(SIGINT);
    _exit(0);
  }
  close(ends[1]);
  std::string said(4096, '\0');
  std::size_t size = 0;
  for (ssize_t n = 1; n > 0 && size < said.size();) {
    n = read(ends[0], said.data() + size, said.size() - size);
    size += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  close(ends[0]);
  said.resize(size);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;  // as a shell expects it
  EXPECT_TRUE(contains(said, "3 of 9 steps"));
  EXPECT_TRUE(said.ends_with("\r\x1b[K")) << said;
}

TEST(CliProgress, NothingIsDrawnInTheFirstSecond) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* err = open_memstream(&text, &size);
  {
    ProgressBar bar(err, 80);
    for (std::uint64_t i = 0; i < 100; ++i) bar.update("reading", i, 100, kBytes);
  }
  std::fclose(err);
  EXPECT_EQ(size, 0u);
  std::free(text);
}

TEST(CliCompletion, NamesEveryVerbAndOption) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(shell);
    for (const Verb& verb : verbs()) {
      EXPECT_TRUE(contains(script, verb.name)) << shell;
      for (const Option& option : all_options(verb))
        EXPECT_TRUE(contains(script, option.name)) << shell << " " << option.name;
    }
  }
  EXPECT_EQ(completion_script("tcsh"), "");
}

TEST(CliCompletion, BashCompletes) {
  if (std::system("bash -c true > /dev/null 2>&1") != 0) GTEST_SKIP() << "no bash";
  const auto completed = [](const std::string& words) {
    const std::string command = "bash -c '" +
                                [] {
                                  std::string script = completion_script("bash"), out;
                                  for (const char c : script)
                                    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
                                  return out;
                                }() +
                                "\nCOMP_WORDS=(" + words +
                                "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); _foretrace; echo \"${COMPREPLY[@]}\"'";
    std::string out;
    std::FILE* pipe = popen(command.c_str(), "r");
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
    EXPECT_EQ(pclose(pipe), 0);
    return out;
  };
  EXPECT_EQ(completed("foretrace su"), "summary\n");
  EXPECT_EQ(completed("foretrace summary --st"), "--step --steps-by --strict\n");
  EXPECT_EQ(completed("foretrace list fo"), "formats foreach-optimizer\n");
  EXPECT_EQ(completed("foretrace completion \"\""), "bash zsh fish\n");
  EXPECT_EQ(completed("foretrace summary --step \"\""), "\n");
}

}  // namespace
}  // namespace foretrace::cli
