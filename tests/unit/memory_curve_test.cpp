// Memory of a step from the allocator's events: what blocks are, where the peak is and what it consists of.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "foretrace/memory/memory.hpp"
#include "measured_step.hpp"
#include "trace_maker.hpp"

namespace foretrace::memory {
namespace {

using test::TraceMaker;

constexpr std::int64_t kMb = 1 << 20;

/// A step whose operations allocate and free by name; times advance by themselves.
class Allocator {
 public:
  explicit Allocator(std::int64_t there) : total_(there) {}

  Allocator& begin(const std::string& op) {
    open_.emplace_back(op, now());
    return *this;
  }
  Allocator& end() {
    made_.op(open_.back().first, open_.back().second, now());
    open_.pop_back();
    return *this;
  }
  Allocator& take(int address, std::int64_t bytes) {
    held_[address] = bytes;
    return event(address, bytes);
  }
  Allocator& free(int address, std::int64_t unknown = 0) {
    const auto it = held_.find(address);
    const std::int64_t bytes = it == held_.end() ? unknown : it->second;
    if (it != held_.end()) held_.erase(it);
    return event(address, -bytes);
  }
  Curve curve() {
    made_.step(1, 0, now() + 1'000);
    made_.launch(1, {10, 20}, "kernel", {30, 40});
    std::string json = made_.json();
    constexpr std::string_view kEvents = "\"traceEvents\":[\n";
    json.insert(json.find(kEvents) + kEvents.size(), events_);
    const Result<trace::Trace> loaded = trace::load_bytes(json, "made.json", {});
    EXPECT_TRUE(loaded) << loaded.error().to_string();
    if (!loaded) return {};
    const trace::Trace& trace = *loaded;
    const trace::Steps steps = trace::find_steps(trace);
    std::optional<Curve> c = memory::curve(trace, steps.steps.front());
    EXPECT_TRUE(c);
    return c ? std::move(*c) : Curve{};
  }

 private:
  Ns now() { return at_ += 1'000; }
  Allocator& event(int address, std::int64_t bytes) {
    total_ += bytes;
    const Ns at = now();
    events_ += fmt::format(
        R"({{"ph":"i","cat":"cpu_instant_event","s":"t","name":"[memory]","pid":1,"tid":1,"ts":{}.{:03},"args":{{)"
        R"("Total Allocated":{},"Bytes":{},"Addr":{},"Device Type":1,"Device Id":0}}}},)",
        at / 1000, at % 1000, total_, bytes, address);
    events_ += "\n";
    return *this;
  }

  TraceMaker made_;
  std::string events_;  // of the allocator
  Ns at_ = 1'000;
  std::int64_t total_;
  std::map<int, std::int64_t> held_;
  std::vector<std::pair<std::string, Ns>> open_;
};

constexpr const char* kBackward = "autograd::engine::evaluate_function: MmBackward0";
constexpr const char* kUpdate = "Optimizer.step#Adam.step";

const Block& block_of(const Curve& c, std::int64_t bytes) {
  for (const Block& b : c.blocks) {
    if (b.bytes == bytes) return b;
  }
  ADD_FAILURE() << "no block of " << bytes;
  static const Block none;
  return none;
}

std::int64_t sum(const Composition& c) {
  return c.parameters + c.gradients + c.optimizer_states + c.activations + c.workspaces + c.other;
}

TEST(MemoryCurve, BlocksAreWhatTheirLivesSay) {
  Allocator a(100 * kMb);
  a.free(9, 7 * kMb);  // the gradient of the step before
  a.begin("aten::mm").take(1, 10 * kMb).take(2, 3 * kMb).free(2).end();
  a.begin("aten::relu").take(3, 11 * kMb).end();
  a.begin("aten::add").take(4, 5 * kMb).free(4).end();
  a.begin(kBackward).begin("aten::mm").take(5, 8 * kMb).take(6, 9 * kMb).end().end();
  a.begin(kBackward).free(3).free(6).free(1).end();
  a.begin(kUpdate).begin("aten::sqrt").take(7, 6 * kMb).free(7).end().end();
  const Curve c = a.curve();
  EXPECT_EQ(block_of(c, 7 * kMb).kind, Kind::kGradient);
  EXPECT_EQ(block_of(c, 10 * kMb).kind, Kind::kActivation);
  EXPECT_EQ(block_of(c, 11 * kMb).kind, Kind::kActivation);
  EXPECT_EQ(block_of(c, 3 * kMb).kind, Kind::kTemporary);
  EXPECT_TRUE(block_of(c, 3 * kMb).workspace) << "freed while its operation ran";
  EXPECT_FALSE(block_of(c, 9 * kMb).workspace);
  EXPECT_EQ(block_of(c, 8 * kMb).kind, Kind::kGradient);
  EXPECT_EQ(block_of(c, 9 * kMb).kind, Kind::kTemporary);
  EXPECT_EQ(block_of(c, 6 * kMb).stage, Stage::kUpdate);
  EXPECT_EQ(c.start_bytes, 93 * kMb);
  EXPECT_EQ(c.peak_bytes, (93 + 10 + 11 + 8 + 9) * kMb);
}

TEST(MemoryCurve, TwoNetworksWithOptimizersOfTheirOwn) {
  Allocator a(100 * kMb);
  a.begin("aten::mm").take(1, 10 * kMb).end();
  a.begin(kBackward).take(2, 4 * kMb).free(1).end();
  a.begin(kUpdate).take(3, kMb).free(3).end();
  a.begin("aten::mm").take(4, 20 * kMb).end();
  a.begin("aten::relu").take(5, 21 * kMb).free(5).end();  // before any backward pass
  a.begin(kBackward).take(6, 30 * kMb).take(7, 5 * kMb).free(6).free(4).end();
  a.begin(kUpdate).take(8, kMb).free(8).end();
  const Curve c = a.curve();
  EXPECT_EQ(block_of(c, 4 * kMb).kind, Kind::kGradient);
  EXPECT_EQ(block_of(c, 5 * kMb).kind, Kind::kGradient);
  EXPECT_EQ(block_of(c, 30 * kMb).kind, Kind::kTemporary) << "gone before the second update";
  EXPECT_EQ(block_of(c, 20 * kMb).kind, Kind::kActivation);
  EXPECT_EQ(block_of(c, 21 * kMb).kind, Kind::kTemporary) << "gone before the second backward pass";
}

TEST(MemoryCurve, CopiesOfParametersDoNotFollowTheBatch) {
  Curve c;
  c.positions = 4;
  c.blocks = {{.bytes = 10 * kMb, .allocated = 1, .kind = Kind::kActivation},
              {.bytes = 4 * kMb, .allocated = 1, .kind = Kind::kActivation, .of_parameters = true},
              {.bytes = kMb, .allocated = 2, .kind = Kind::kGradient, .stage = Stage::kBackward}};
  scale_batch(c, 2);
  EXPECT_EQ(peak(c).bytes, 25 * kMb);
  const auto at = [&](double x) {
    Curve scaled = c;
    scale_batch(scaled, x);
    return scaled;
  };
  EXPECT_DOUBLE_EQ(largest_batch(at, 5.0 * kMb), 0);
  // 60 of the batch in a segment of their own, 4 in one of 20, the gradient in a small one.
  EXPECT_NEAR(largest_batch(at, 82.0 * kMb), 3, 1e-3);
}

TEST(MemoryCurve, ABlockMayBeLargerThanWhatWasAskedFor) {
  EXPECT_TRUE(could_hold({.bytes = 512}, 1));
  EXPECT_FALSE(could_hold({.bytes = 1024}, 1));
  EXPECT_FALSE(could_hold({.bytes = 512}, 513));
  EXPECT_TRUE(could_hold({.bytes = 3 * kMb}, 2 * kMb + 512)) << "a rest below a megabyte is not split off";
  EXPECT_FALSE(could_hold({.bytes = 4 * kMb}, 2 * kMb));
}

TEST(Composition, AddsUpToThePeak) {
  std::mt19937 random(7);
  const auto draw = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  for (int round = 0; round < 200; ++round) {
    Curve c;
    c.positions = static_cast<std::uint32_t>(draw(1, 40));
    c.start_bytes = draw(0, 1000) * kMb;
    c.parameter_bytes = draw(0, 400) * kMb;
    c.state_bytes = draw(0, 800) * kMb;
    for (int i = draw(0, 30); i > 0; --i) {
      Block b{.bytes = draw(1, 100) * kMb, .allocated = static_cast<std::uint32_t>(draw(0, 40))};
      b.freed = draw(0, 3) == 0 ? UINT32_MAX : b.allocated + static_cast<std::uint32_t>(draw(0, 20));
      b.kind = static_cast<Kind>(draw(0, static_cast<int>(kKinds) - 1));
      b.workspace = draw(0, 1) == 1;
      c.blocks.push_back(b);
    }
    const Composition parts = composition(c);
    EXPECT_EQ(sum(parts), peak(c).bytes) << round;
    EXPECT_LE(parts.parameters, std::max<std::int64_t>(c.parameter_bytes, c.start_bytes + 3000 * kMb));
    EXPECT_GE(parts.optimizer_states, 0);
  }
}

// One row for each mechanism; figures of data/*/truth.jsonl.
TEST(MemoryOfWhatIfs, MeetsMeasuredPeaks) {
  struct Row {
    const char* name;
    std::vector<std::string> uses;
    double measured, within;
  };
  const Row rows[] = {
      {"h200-clean/llama_gqa@1", {"amp:dtype=bf16", "flash-attention", "fused-optimizer"}, 4366.9e6, 0.02},
      {"h200-clean/t5_4x4@2", {"accumulate:n=2"}, 3474.2e6, 0.02},      // gradients are there once
      {"h200-clean/bert_base-today", {"batch:x=0.5"}, 3214.0e6, 0.01},  // copies of weights stay
      {"h200-clean/swin_t@4", {"checkpoint"}, 653.8e6, 0.04},           // blocks in lists of lists
      {"h200-more/bert_l8", {"amp"}, 13677.0e6, 0.01},                  // copies of operands are no masks
      {"h200-more/bert_l8", {"flash-attention"}, 13091.0e6, 0.01},
      {"h200-clean/resnet50", {"amp"}, 3321.0e6, 0.02},                  // tensor cores copy into NHWC
      {"h200-clean/lstm_lm@8", {"fused-optimizer"}, 1075.5e6, 0.01},     // no temporaries in the update
      {"h200-clean/t5_4x4@2", {"amp"}, 3405.1e6, 0.01},                  // an encoder and a decoder in fp16
      {"h200-heldout/dcgan", {"fused-optimizer"}, 1328.8e6, 0.01},       // two networks, an optimizer each
      {"h200-clean/efficientnet_b0@16", {"checkpoint"}, 602.0e6, 0.01},  // the stem is no block
      {"h200-catalogue/bert_l4",
       {"compile"},
       7034.2e6,
       0.02},                                          // a norm's input in addition to its result, which products keep
      {"h200-clean/mlp", {"compile"}, 137.7e6, 0.02},  // a norm whose input a product wrote
      // Copies that autocast would make are results of compiled kernels.
      {"h200-clean/gpt2", {"amp:dtype=bf16", "flash-attention", "fused-optimizer", "compile"}, 5771.2e6, 0.01},
  };
  for (const Row& row : rows) {
    const whatif::Prediction p = test::predicted(row.name, row.uses);
    ASSERT_EQ(p.declined, "") << row.name;
    EXPECT_NEAR(static_cast<double>(*p.peak_bytes) / row.measured, 1, row.within) << row.name << " " << p.whatif;
    EXPECT_EQ(sum(*p.peak_parts), *p.peak_bytes) << row.name;
    EXPECT_EQ(sum(*p.peak_parts) + p.peak_parts->fragmentation, *p.reserved_bytes) << row.name;
  }
}

TEST(Composition, OfAMeasuredStep) {
  // GPT-2: 124 M parameters, Adam, lists whose shapes the profiler left out: parameters are counted by their gradients.
  const analysis::Baseline& b = test::measured_step("h200-lengths/gpt2-today");
  EXPECT_NEAR(static_cast<double>(b.model.parameter_elements), 124439808.0, 4e6);
  ASSERT_TRUE(b.figures.peak_parts);
  const Composition& parts = *b.figures.peak_parts;
  EXPECT_EQ(sum(parts), *b.figures.peak_bytes);
  EXPECT_NEAR(static_cast<double>(parts.parameters), 4.0 * 124439808, 1e7);
  EXPECT_NEAR(static_cast<double>(parts.optimizer_states), 8.0 * 124439808, 2e7);
  EXPECT_GT(parts.activations, parts.parameters);
  // The copies autocast makes of weights stay as they are when the batch grows.
  std::int64_t copies = 0;
  for (const Block& block : b.model.memory->blocks) {
    if (block.of_parameters && block.kind == Kind::kActivation) copies += block.bytes;
  }
  EXPECT_NEAR(static_cast<double>(copies), 2.0 * 124e6, 0.1 * 2.0 * 124e6);
}

}  // namespace
}  // namespace foretrace::memory
