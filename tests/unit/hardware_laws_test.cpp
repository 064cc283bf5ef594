// One law for each kind of work: what-ifs and the transfer to another GPU ask the same function.

#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <string>

#include "hardware/cost_attention.hpp"
#include "hardware/cost_models.hpp"
#include "hardware/cost_recurrent.hpp"
#include "hardware/cost_streaming.hpp"
#include "hardware/tables.hpp"
#include "hardware/transfer.hpp"

namespace foretrace::hardware {
namespace {

Device device(const char* name) { return *find_device(name); }

Work attention(std::int64_t batch, std::int64_t heads, std::int64_t queries, std::int64_t keys, std::int64_t size,
               Dtype dtype, bool backward, bool causal = false, bool masked = false, std::int64_t shared = 1) {
  Work w = work::attention_work(batch, heads, queries, keys, size, dtype, backward, causal);
  auto& a = std::get<Attention>(w.kind);
  a.masked = masked;
  a.shared = shared;
  refresh(w);
  return w;
}

Work recurrent(const Recurrent& r, Dtype dtype, bool backward) {
  Work w(Family::kRnn);
  w.kind = r;
  w.dtype = w.out_dtype = dtype;
  w.backward = backward;
  refresh(w);
  return w;
}

double law_us(const Work& w, const Device& d) {
  if (const auto* a = std::get_if<Attention>(&w.kind)) return attention_us(w, *a, Laws::shipped(), d);
  return recurrent_us(w, std::get<Recurrent>(w.kind), TransferWeights::shipped(), Laws::shipped(), d);
}

// A time that is as far from the law as the neighbours say goes to another GPU as that GPU's own prediction has it, and a change
// before the move is worth what it is behind it.
void expect_one_law(const Work& w, const Work& changed) {
  const Device h200 = device("H200-SXM");
  const Device h100 = device("H100-SXM5");
  const double here = predict(w, h200).ns;
  const double there = predict(w, h100).ns;
  ASSERT_GT(here, 0);
  EXPECT_GE(here, roofline_ns(w, h200));
  // Where the roofline does not decide.
  if (here > 1.01 * roofline_ns(w, h200) && there > 1.01 * roofline_ns(w, h100)) {
    const double moved = transfer(here, here, w, KernelShape{}, h200, h100).ns;
    EXPECT_NEAR(moved / here, law_us(w, h100) / law_us(w, h200), 1e-9);
    // Neighbours are looked for at as many blocks per SM, and as much L2, as there are: the same on both.
    EXPECT_NEAR(moved / there, 1, 1e-9);
    const double after = rescale(here, w, changed, h200).ns;
    EXPECT_NEAR(transfer(after, after, changed, KernelShape{}, h200, h100).ns / rescale(there, w, changed, h100).ns, 1,
                1e-9);
  }
}

TEST(Laws, BothDoorsAskTheSameAttention) {
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kFp16, Dtype::kBf16}) {
    for (const bool backward : {false, true}) {
      for (const bool causal : {false, true}) {
        for (const std::int64_t shared : {1, 4}) {
          const Work w = attention(4, 16, 1024, 1024, 64, dtype, backward, causal, false, shared);
          expect_one_law(w, work::with_batch(w, 2));
        }
      }
      expect_one_law(attention(2, 8, 200, 77, 40, dtype, backward, false, true),
                     attention(2, 8, 400, 77, 40, dtype, backward, false, true));
    }
  }
}

TEST(Laws, BothDoorsAskTheSameRecurrentLayer) {
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kTf32, Dtype::kFp16, Dtype::kBf16}) {
    for (const bool backward : {false, true}) {
      for (const std::int64_t hidden : {128, 650, 1024}) {
        const Work w = recurrent({20, 35, hidden, hidden, 2, 1, 4}, dtype, backward);
        expect_one_law(w, work::with_batch(w, 2));
      }
    }
  }
}

// What the law says of one GPU goes to another as the law says of it: memory and handling are split again from the time alone.
TEST(Laws, BothDoorsAskTheSameStreamingWork) {
  const Device from = device("H200-SXM");
  for (const char* name : {"H100-SXM5", "A100-SXM4-80GB", "V100-SXM2-16GB", "L40S", "T4"}) {
    const Device to = device(name);
    for (const std::int64_t elements : {1'000'000, 20'000'000, 200'000'000}) {
      const Work w = work::elementwise_work(elements, 2, 1, Dtype::kFp32);
      const auto& p = std::get<Pointwise>(w.kind);
      const double here = pointwise_model(w, p, Tables::shipped(), from).us;
      const double there = pointwise_model(w, p, Tables::shipped(), to).us;
      const double moved = transfer(here * 1e3, here * 1e3, w, KernelShape{}, from, to).ns / 1e3;
      // The time alone does not say which part of it waited for memory.
      EXPECT_NEAR(std::log(moved / there), 0, 0.3) << name << ' ' << elements;
    }
  }
}

TEST(Laws, TheLawOfStreamsIsASoftMaximum) {
  const StreamingWeights& p = any_streaming();
  EXPECT_DOUBLE_EQ(streaming_us({1, 10, 0}, p), 11);
  EXPECT_DOUBLE_EQ(streaming_us({1, 0, 10}, p), 11);
  const double both = streaming_us({0, 10, 10}, p);
  EXPECT_GT(both, 10);
  EXPECT_LT(both, 20);
  EXPECT_GT(handling_rate(1, device("H200-SXM")), handling_rate(1, device("A100-SXM4-80GB")));
  EXPECT_NEAR(handling_rate(1, device("H200-SXM")), 132 * 1980, 0.01 * 132 * 1980);
}

TEST(Laws, AttentionGrowsWithEverySize) {
  for (const char* name : {"H200-SXM", "A100-SXM4-80GB", "L40S"}) {
    const Device d = device(name);
    for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16}) {
      for (const bool backward : {false, true}) {
        for (const bool causal : {false, true}) {
          const auto us = [&](std::int64_t b, std::int64_t h, std::int64_t q, std::int64_t s, std::int64_t size) {
            return law_us(attention(b, h, q, s, size, dtype, backward, causal), d);
          };
          for (std::int64_t n = 1; n < 3000; n += 1 + n / 7) {
            EXPECT_LE(us(4, 8, n, 512, 64), us(4, 8, n + 1 + n / 7, 512, 64) * (1 + 1e-12)) << name << n;
            EXPECT_LE(us(4, 8, 512, n, 64), us(4, 8, 512, n + 1 + n / 7, 64) * (1 + 1e-12)) << name << n;
            EXPECT_LE(us(n, 8, 256, 256, 64), us(n + 1 + n / 7, 8, 256, 256, 64) * (1 + 1e-12)) << name << n;
            if (n < 256) {
              EXPECT_LE(us(4, 8, 512, 512, n), us(4, 8, 512, 512, n + 1) * (1 + 1e-12)) << name << n;
            }
          }
          EXPECT_GE(us(4, 8, 512, 512, 64), law_us(attention(4, 8, 512, 512, 64, dtype, backward, true), d));
        }
      }
    }
  }
}

TEST(Laws, AttentionNeverGrowsWithABetterDevice) {
  for (const char* name : {"H200-SXM", "A100-SXM4-80GB", "L40S", "V100-SXM2-16GB", "B200"}) {
    const Device d = device(name);
    for (const Work& w : {attention(1, 4, 300, 300, 128, Dtype::kBf16, false, true),
                          attention(16, 32, 2048, 2048, 128, Dtype::kFp16, true, true),
                          attention(8, 12, 1000, 77, 80, Dtype::kFp32, false, false, true)}) {
      for (double Device::* figure : {&Device::clock_mhz, &Device::bandwidth_gbs, &Device::l2_mb, &Device::tflops_fp32,
                                      &Device::tflops_fp16, &Device::tflops_bf16}) {
        Device better = d;
        better.*figure *= 1.3;
        EXPECT_LE(law_us(w, better), law_us(w, d) * (1 + 1e-12)) << name;
      }
      Device more = d;
      more.sm_count = d.sm_count * 3 / 2;
      EXPECT_LE(law_us(w, more), law_us(w, d) * (1 + 1e-12)) << name;
    }
  }
}

TEST(Laws, SharedKeysAreReadOnce) {
  const Device d = device("L40S");
  EXPECT_LT(law_us(attention(64, 32, 128, 128, 128, Dtype::kBf16, false, true, false, 32), d),
            law_us(attention(64, 32, 128, 128, 128, Dtype::kBf16, false, true, false, 1), d));
}

TEST(Laws, ParametersAreSmallPlainDataAndChecked) {
  const std::string head = "law,kind,architecture,parameter,value\n";
  for (const char* bad :
       {"attention,fwd half,any,share,fast\n", "attention,fwd half,any,shore,1\n", "gravity,fwd half,any,share,1\n",
        "attention,fwd half,any,share\n", "attention,fwd half,any,share,inf\n"}) {
    const Result<Laws> read = Laws::parse(head + bad, "laws.csv");
    ASSERT_FALSE(read.has_value()) << bad;
    EXPECT_NE(read.error().to_string().find("line 2"), std::string::npos);
  }
  const Result<Laws> read =
      Laws::parse(head + "attention,fwd half,any,share,0.5\nattention,fwd half,9.0,share,0.7\n", "laws.csv");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->attention("fwd half", device("A100-SXM4-80GB"))->share, 0.5);
  EXPECT_EQ(read->attention("fwd half", device("H100-SXM5"))->share, 0.7);
  EXPECT_EQ(read->attention("sideways", device("A100-SXM4-80GB")), nullptr);
  // Every kind of work there is has parameters.
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kTf32, Dtype::kFp16, Dtype::kBf16}) {
    for (const Access access :
         {Access::kContiguous, Access::kMixed, Access::kStrided, Access::kMixedStrided, Access::kTransposed}) {
      for (const Arithmetic arithmetic : {Arithmetic::kPlain, Arithmetic::kFill, Arithmetic::kGelu, Arithmetic::kSilu,
                                          Arithmetic::kDropout, Arithmetic::kRelayout}) {
        for (const Family family : {Family::kElementwise, Family::kCopy, Family::kOptimizer}) {
          for (const std::int64_t tensors : {1, 7}) {
            Work w = work::elementwise_work(1'000'000, 1, 1, dtype);
            w.become(family);
            w.access = access;
            w.backward = tensors == 1;
            w.kind = Pointwise{arithmetic, tensors};
            EXPECT_GT(pointwise_model(w, std::get<Pointwise>(w.kind), Tables::shipped(), device("A100-SXM4-80GB")).us,
                      0)
                << streaming_kind(w, std::get<Pointwise>(w.kind));
          }
        }
      }
    }
  }
  const Device d = device("A100-SXM4-80GB");
  for (const bool backward : {false, true}) {
    for (const Dtype dtype : {Dtype::kFp32, Dtype::kTf32, Dtype::kFp16, Dtype::kBf16}) {
      for (const bool masked : {false, true}) {
        EXPECT_GT(law_us(attention(2, 8, 256, 256, 64, dtype, backward, false, masked), d), 0);
      }
      for (const std::int64_t hidden : {64, 512}) {
        EXPECT_GT(law_us(recurrent({8, 20, 128, hidden, 1, 1, 4}, dtype, backward), d), 0);
      }
    }
  }
}

}  // namespace
}  // namespace foretrace::hardware
