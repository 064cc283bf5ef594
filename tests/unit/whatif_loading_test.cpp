// Batches of other sizes behind a loader of a fixed cost per sample, against the closed form: one after the other in the main thread, the
// larger of both with workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "analysis/make_model.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "trace_maker.hpp"
#include "whatif/predict/predictor.hpp"
#include "whatif/rewrite/loading.hpp"

namespace foretrace::whatif {
namespace {

using testing::HasSubstr;

constexpr std::string_view kSingle = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
constexpr std::string_view kWorkers = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";

// `loading` ns in the range, without a single event inside, and 10 ms of work behind it.
test::TraceMaker step_with(std::string_view range, Ns loading) {
  test::TraceMaker m;
  m.step(1, 0, loading + 10'000'000);
  if (loading > 0) m.range(range, 0, loading);
  for (int i = 0; i < 40; ++i) {
    const Ns at = loading + i * 250'000;
    m.op("aten::mul", at, at + 40'000);
    m.launch(i + 1, {at + 10'000, at + 20'000}, "mul", {at + 30'000, at + 240'000});
  }
  m.call("cudaDeviceSynchronize", {loading + 9'990'000, loading + 10'000'000}, 99);
  return m;
}

class Step {
 public:
  explicit Step(const test::TraceMaker& m) : trace_(m.load()) {
    const trace::Steps steps = trace::find_steps(trace_);
    Result<graph::Graph> graph = graph::GraphBuilder(trace_, steps).build(0);
    if (!graph) throw std::runtime_error(graph.error().to_string());
    Result<Model> model = analysis::make_model(trace_, steps.steps[0], *graph, graph->traced, graph->traced);
    if (!model) throw std::runtime_error(model.error().to_string());
    model_ = std::move(*model);
    length_ = graph->traced;
  }

  [[nodiscard]] Prediction ask(const std::vector<std::string>& texts) const {
    std::vector<Use> uses;
    for (const std::string& text : texts) uses.push_back(*parse_use(text));
    return predict(model_, uses, length_);
  }
  [[nodiscard]] double ms(const std::vector<std::string>& texts) const {
    const Prediction p = ask(texts);
    EXPECT_TRUE(p.declined.empty()) << p.declined;
    return static_cast<double>(p.step) / 1e6;
  }

 private:
  trace::Trace trace_;
  Model model_;
  Ns length_ = 0;
};

TEST(Batch, LoadingInTheLoopGrowsWithIt) {
  const Step without(step_with(kSingle, 0));
  for (const std::string_view range : {kSingle, std::string_view("load_batch")}) {
    const Step loads(step_with(range, 30'000'000));
    for (const char* x : {"0.5", "2", "4"}) {
      const std::string batch = std::string("batch:x=") + x;
      const double expected = std::stod(x) * 30 + without.ms({batch});
      EXPECT_NEAR(loads.ms({batch}), expected, 0.03 * expected) << range << " " << x;
    }
  }
}

TEST(Batch, LoadingInWorkersGrowsWithItInEitherOrder) {
  const Step without(step_with(kSingle, 0));
  const Step loads(step_with(kSingle, 30'000'000));
  // With workers, the main thread's own work takes longer.
  const double slower = host::HostCosts::built_in().loader.slower_with_workers;
  for (const char* workers : {"1", "2", "8"}) {
    for (const char* x : {"0.5", "2", "4"}) {
      const std::string batch = std::string("batch:x=") + x;
      const std::string loader = std::string("dataloader:workers=") + workers;
      const double one = loads.ms({"dataloader:workers=1"});  // a worker needs longer for a batch than the main thread
      const double work = loads.ms({batch, "dataloader:workers=1000"});
      EXPECT_GT(work, 0.98 * without.ms({batch})) << x;
      EXPECT_LT(work, 1.01 * slower * without.ms({batch})) << x;
      const double expected = std::max(std::stod(x) * one / std::stod(workers), work);
      EXPECT_NEAR(loads.ms({batch, loader}), expected, 0.05 * expected) << x << " " << workers;
      EXPECT_NEAR(loads.ms({loader, batch}), loads.ms({batch, loader}), 0.01 * expected) << x << " " << workers;
    }
  }
}

TEST(Batch, WorkersThatAreWaitedForBoundTheStep) {
  const Step without(step_with(kWorkers, 0));
  const Step waits(step_with(kWorkers, 30'000'000));
  for (const char* x : {"0.5", "2", "4"}) {
    const std::string batch = std::string("batch:x=") + x;
    const double expected = std::max(std::stod(x) * 40, without.ms({batch}));
    EXPECT_NEAR(waits.ms({batch}), expected, 0.05 * expected) << x;
  }
  // Two workers made a batch in 40 ms; eight make one in 10.
  EXPECT_NEAR(waits.ms({"dataloader:workers=4,now=2"}), 20, 1);
  EXPECT_NEAR(waits.ms({"dataloader:workers=4,now=2", "batch:x=2"}), 40, 2);
  EXPECT_NEAR(waits.ms({"batch:x=2", "dataloader:workers=4,now=2"}), 40, 2);
  EXPECT_THAT(waits.ask({"dataloader:workers=4"}).declined, HasSubstr("now="));
}

TEST(DataLoader, WorkersOfTheTraceAreCounted) {
  test::TraceMaker m = step_with(kWorkers, 30'000'000);
  const auto worker = [&](int pid) {
    m.pid = pid;
    m.thread(pid).frame("/lib/torch/utils/data/_utils/worker.py(250): _worker_loop", 0, 39'000'000);
  };
  EXPECT_EQ(recorded_workers(m.load()), 0U);
  worker(11);
  worker(12);
  EXPECT_EQ(recorded_workers(m.load()), 2U);
  EXPECT_NEAR(Step(m).ms({"dataloader:workers=4"}), 20, 1);
}

}  // namespace
}  // namespace foretrace::whatif
