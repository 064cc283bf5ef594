// PyTorch's execution trace together with the profiler's: which tensor goes where.

#include "trace/execution_trace.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "base/byte_source.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/trace/load.hpp"
#include "kineto_helpers.hpp"
#include "whatif/dataflow/dataflow.hpp"

namespace foretrace::trace {
namespace {

constexpr const char* kTiny = FORETRACE_SOURCE_DIR "/tests/data/execution-trace/tiny.json.gz";
constexpr const char* kTinyTensors = FORETRACE_SOURCE_DIR "/tests/data/execution-trace/tiny.et.json.gz";

struct Loaded {
  Trace trace;
  analysis::Baseline baseline;
};

std::unique_ptr<Loaded> tiny(bool with_tensors) {
  auto out = std::make_unique<Loaded>();
  Result<Trace> trace = load(kTiny);
  EXPECT_TRUE(trace);
  if (!trace) return nullptr;
  out->trace = std::move(*trace);
  if (!with_tensors) std::erase_if(out->trace.metadata, [](const auto& m) { return m.first == kTensorsKey; });
  Result<analysis::Baseline> baseline = analysis::make_baseline(out->trace, std::nullopt, std::nullopt);
  EXPECT_TRUE(baseline);
  if (!baseline) return nullptr;
  out->baseline = std::move(*baseline);
  return out;
}

TEST(ExecutionTrace, LoadTakesTheOneNextToTheTrace) {
  const auto l = tiny(true);
  ASSERT_TRUE(l);
  const TensorIdentities tensors(l->trace);
  std::size_t operations = 0, known = 0;
  for (std::uint32_t e = 0; e < l->trace.size(); ++e) {
    if (l->trace.kind(e) != EventKind::kOp || !l->trace.name(e).starts_with("aten::")) continue;
    ++operations;
    known += tensors.of(e) != nullptr ? 1 : 0;
  }
  EXPECT_GT(operations, 200u);
  EXPECT_EQ(known, operations);
  EXPECT_EQ(l->trace.diagnostics.find("execution_trace"), nullptr);
}

/// Units whose inputs all come from where the execution trace says; of how many inputs.
struct Agreement {
  std::size_t right = 0, inputs = 0;
  std::string wrong;
};

Agreement agreement(const Loaded& l, const whatif::Dataflow& flow) {
  const auto truth = tiny(true);
  const TensorIdentities tensors(truth->trace);
  std::map<std::int64_t, std::uint32_t> producer;  // of a tensor, as of now
  Agreement out;
  for (std::uint32_t u = 0; u < flow.units.size(); ++u) {
    const TensorIdentities::Operation* op = tensors.of(flow.units[u].event);
    if (op == nullptr) continue;
    for (const whatif::Input& in : flow.units[u].inputs) {
      const auto use = std::find_if(op->inputs.begin(), op->inputs.end(),
                                    [&](const TensorUse& t) { return t.argument == in.argument; });
      if (use == op->inputs.end()) continue;
      const auto made = producer.find(use->tensor);
      ++out.inputs;
      const std::uint32_t from = made == producer.end() ? foretrace::kNone : made->second;
      out.right += flow.values[in.value].producer == from ? 1 : 0;
      if (flow.values[in.value].producer != from) out.wrong += fmt::format(" {}[{}]", flow.units[u].name, in.argument);
    }
    for (const TensorUse& t : op->outputs) {
      // What hands its input on makes nothing.
      const bool handed_on =
          std::any_of(op->inputs.begin(), op->inputs.end(), [&](const TensorUse& in) { return in.tensor == t.tensor; });
      if (!handed_on || flow.units[u].computes) producer[t.tensor] = u;
    }
  }
  EXPECT_EQ(&l.trace, flow.trace);
  return out;
}

TEST(ExecutionTrace, EveryInputIsTracedToTheOperationThatWroteIt) {
  const auto named = tiny(true), guessed = tiny(false);
  ASSERT_TRUE(named && guessed);
  const Agreement exact = agreement(*named, whatif::forward_flow(named->baseline.model));
  const Agreement likely = agreement(*guessed, whatif::forward_flow(guessed->baseline.model));
  ASSERT_GT(exact.inputs, 60u);
  EXPECT_EQ(exact.right, exact.inputs) << exact.wrong;
  EXPECT_EQ(likely.inputs, exact.inputs);
  std::printf("%zu of %zu inputs without it\n", likely.right, likely.inputs);
  EXPECT_LT(likely.right, likely.inputs);  // or there would be no gain to show
}

TEST(ExecutionTrace, ThreeProjectionsOfABlockReadItsNorm) {
  const auto named = tiny(true);
  ASSERT_TRUE(named);
  const whatif::Dataflow flow = whatif::forward_flow(named->baseline.model);
  std::size_t norms = 0;
  for (const whatif::Unit& u : flow.units) {
    if (u.name != "aten::layer_norm") continue;
    ++norms;
    ASSERT_FALSE(u.outputs.empty());
    const std::vector<std::uint32_t>& readers = flow.values[u.outputs[0]].consumers;
    EXPECT_EQ(readers.size(), 3u);  // query, key and value; the gate reads the block's input
    for (const std::uint32_t r : readers) EXPECT_EQ(flow.units[r].name, "aten::linear");
  }
  EXPECT_EQ(norms, 2u);
}

/// Steps of a product and a sum on one thread; the last one is observed, and only its operations have numbers.
Trace one_observed_step(int steps, std::string_view strange = "") {
  std::string events;
  for (int i = 0; i < steps; ++i) {
    const bool last = i + 1 == steps;
    const auto id = [&](int number) { return fmt::format(R"({{"Record function id": {}}})", last ? number : 0); };
    events += (i > 0 ? "," : "") + test::op("aten::mm", fmt::format("{}", 100 * i), "5", id(4));
    if (i == 1 && !strange.empty()) events += "," + test::op(strange, "107", "1");
    events += "," + test::op("aten::add", fmt::format("{}", 100 * i + 10), "5", id(5));
  }
  Trace trace = test::must_load(test::wrap(events));
  const std::string nodes = R"json({"nodes": [
    {"name": "aten::mm", "attrs": [{"name": "rf_id", "value": 4}], "inputs": {"values": [], "shapes": [], "types": []},
     "outputs": {"values": [[7, 70, 0, 4, 4, "cuda:0"]], "shapes": [[2, 2]], "types": ["Tensor(float)"]}},
    {"name": "aten::add", "attrs": [{"name": "rf_id", "value": 5}],
     "inputs": {"values": [[7, 70, 0, 4, 4, "cuda:0"]], "shapes": [[2, 2]], "types": ["Tensor(float)"]},
     "outputs": {"values": [], "shapes": [], "types": []}}]})json";
  EXPECT_EQ(add_tensors(trace, nodes), 2);
  return trace;
}

TEST(ExecutionTrace, StepsThatDoTheSameTakeTheTensorsOfTheObservedOne) {
  const Trace trace = one_observed_step(4);
  const TensorIdentities tensors(trace);
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    const TensorIdentities::Operation* op = tensors.of(e);
    ASSERT_NE(op, nullptr) << e;
    const std::vector<TensorUse>& uses = trace.name(e) == "aten::mm" ? op->outputs : op->inputs;
    ASSERT_EQ(uses.size(), 1u);
    EXPECT_EQ(uses[0].tensor, 7);
  }
}

TEST(ExecutionTrace, AStepThatDoesOtherThingsTakesNone) {
  const Trace trace = one_observed_step(3, "aten::relu");
  const TensorIdentities tensors(trace);
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    const bool strange = trace.events.start[e] >= 100'000 && trace.events.start[e] < 200'000;
    EXPECT_EQ(tensors.of(e) == nullptr, strange) << trace.name(e);
  }
}

TEST(ExecutionTrace, OneOfAnotherRunIsLeftAside) {
  Trace trace = test::must_load(test::wrap(test::op("aten::mm", "10", "5", R"({"Record function id": 4})")));
  EXPECT_EQ(add_tensors(trace, R"({"schema": "1.1.1-chakra.0.0.4", "nodes": [{"name": "aten::add", "attrs":
    [{"name": "rf_id", "value": 4}], "inputs": {"values": [], "shapes": [], "types": []},
    "outputs": {"values": [], "shapes": [], "types": []}}]})"),
            0);
  EXPECT_TRUE(TensorIdentities(trace).empty());
}

TEST(ExecutionTrace, OldAndNewSchemasSayTheSame) {
  const std::string lists[] = {
      R"json("attrs": [{"name": "rf_id", "value": 4}], "inputs": {"values": [[[7, 8, 0, 6, 4, "cuda:0"], [9, 10, 0, 6, 4, "cuda:0"]], 3],
         "shapes": [[[2, 3], [2, 3]], []], "types": ["GenericList[Tensor(float),Tensor(float)]", "Int"]},
         "outputs": {"values": [[11, 12, 0, 12, 4, "cuda:0"]], "shapes": [[4, 3]], "types": ["Tensor(float)"]})json",
      R"json("rf_id": 4, "inputs": [[[7, 8, 0, 6, 4, "cuda:0"], [9, 10, 0, 6, 4, "cuda:0"]], 3], "input_shapes": [[[2, 3], [2, 3]], []],
         "input_types": ["GenericList[Tensor(float),Tensor(float)]", "Int"], "outputs": [[11, 12, 0, 12, 4, "cuda:0"]],
         "output_shapes": [[4, 3]], "output_types": ["Tensor(float)"])json"};
  for (const std::string& node : lists) {
    Trace trace = test::must_load(test::wrap(test::op("aten::cat", "10", "5", R"({"Record function id": 4})")));
    ASSERT_EQ(add_tensors(trace, R"({"nodes": [{"name": "aten::cat", )" + node + "}]}"), 1);
    const TensorIdentities tensors(trace);
    const TensorIdentities::Operation* op = tensors.of(0);
    ASSERT_NE(op, nullptr);
    ASSERT_EQ(op->inputs.size(), 2u);
    EXPECT_EQ(op->inputs[1].tensor, 9);
    EXPECT_EQ(op->inputs[1].storage, 10);
    EXPECT_EQ(op->inputs[1].argument, 0u);
    ASSERT_EQ(op->outputs.size(), 1u);
    EXPECT_EQ(op->outputs[0].shape, (std::vector<std::int64_t>{4, 3}));
  }
}

TEST(ExecutionTrace, ADamagedOneIsSaidAndNotUsed) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("foretrace-et-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  fs::copy_file(kTiny, folder / "tiny.json.gz", fs::copy_options::overwrite_existing);
  const Result<std::string> whole = read_file(kTinyTensors);
  ASSERT_TRUE(whole);
  for (const std::string& bad : {std::string("no JSON"), std::string("{}"), whole->substr(0, whole->size() / 2),
                                 std::string(R"({"nodes": [1, 2]})"), std::string(R"({"nodes": {}})")}) {
    std::ofstream(folder / "tiny.et.json") << bad;
    const Result<Trace> trace = load((folder / "tiny.json.gz").string());
    ASSERT_TRUE(trace) << bad.substr(0, 40);
    EXPECT_NE(trace->diagnostics.find("execution_trace"), nullptr) << bad.substr(0, 40);
    EXPECT_TRUE(TensorIdentities(*trace).empty());
  }
  fs::remove_all(folder);
}

TEST(ExecutionTrace, NumbersThatAreNoRowsAreNotBelieved) {
  for (const char* rows : {"[0, 99999999]", "[0, 1, 2]", "[-1, 0, 0]", "[0, -1]", "[5000000000, 0, 0]", "{}", "[\"a\"]",
                           "[0,0,1,1,1,9]"}) {
    Trace trace = test::must_load(test::wrap(test::op("aten::mm", "10", "5")));
    trace.metadata.emplace_back(kTensorsKey, rows);
    EXPECT_TRUE(TensorIdentities(trace).empty()) << rows;
  }
}

}  // namespace
}  // namespace foretrace::trace
