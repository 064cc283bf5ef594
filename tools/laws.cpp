// The C++ cost laws for the fitting tools: a shared library that tools/laws.py loads. Each law is one function from a row of
// numbers to microseconds, with parameters that the tool is trying out. Not part of the wheel.
//
//   evaluate(LAW, PARAMETERS, DEVICE, ROWS, how many rows, numbers in a row, TIMES) -> 0, or -1 with the reason in last_error()
//
// PARAMETERS is the text of a table as src/hardware has it (transfer/*.csv, laws/*.csv, convolutions/*.csv, fabrics/protocols.csv) or src/host (hosts/*.csv),
// so that no parameter is listed here. LAW is the name of the law and, behind a blank, the kind of work.

#include "hardware/laws.hpp"

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "foretrace/hardware/device.hpp"
#include "hardware/board_power.hpp"
#include "hardware/choice/conv_algorithm.hpp"
#include "hardware/contention.hpp"
#include "hardware/cost_attention.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/cost_recurrent.hpp"
#include "hardware/cost_streaming.hpp"
#include "hardware/figures.hpp"
#include "hardware/law_conv.hpp"
#include "hardware/protocols.hpp"
#include "host/phase_counts.hpp"

namespace {

using namespace foretrace;
using namespace foretrace::hardware;
using namespace foretrace::work;

using Row = std::span<const double>;
using Law = std::function<double(Row)>;

std::int64_t whole(double x) { return static_cast<std::int64_t>(x); }

template <class T>
T required(Result<T> found) {
  if (!found) throw std::invalid_argument(found.error().to_string());
  return std::move(*found);
}

const Device& device_named(const std::string& name) {
  static std::map<std::string, Device> seen;
  const auto it = seen.find(name);
  if (it != seen.end()) return it->second;
  Device device = required(find_device(name));
  // TF32's rate is half of half precision's on every GPU; device files hold it rounded to half a TFLOP/s.
  if (device.tflops_tf32 > 0) device.tflops_tf32 = device.tflops_bf16 / 2;
  return seen.emplace(name, std::move(device)).first->second;
}

Dtype dtype_named(std::string_view name, const Device& d) {
  if (name == "tf32") return Dtype::kTf32;
  if (name == "fp16") return Dtype::kFp16;
  if (name == "half" || name == "bf16") return d.tflops_bf16 > 0 ? Dtype::kBf16 : Dtype::kFp16;
  return Dtype::kFp32;
}

// batch, m, n, k, bytes of an element, bytes moved (0: the operands'), times the power limit; of a convolution that Winograd's
// algorithms can do also images, channels, size, output channels and output size.
Law product_law(const std::string& kind, const std::string& parameters, const Device& device) {
  const TransferWeights sets =
      required(TransferWeights::parse(parameters, "PARAMETERS", TransferWeights::shipped(), device.name));
  Product x;
  for (std::size_t k = 0; k < kProductKinds; ++k) {
    if (to_string(static_cast<ProductKind>(k)) == kind) x.kind = static_cast<ProductKind>(k);
  }
  x.dtype = dtype_named(kind, device);
  return [x, device, weights = sets.of(x.kind, device)](Row r) mutable {
    const Device limited = with_power(device, r[6]);
    x.batch = r[0], x.m = r[1], x.n = r[2], x.k = r[3], x.element_bytes = r[4], x.bytes = r[5];
    if (r.size() > 7) {
      x.images = r[7], x.channels = r[8], x.height = x.width = r[9];
      x.out_channels = r[10], x.out_height = x.out_width = r[11];
    }
    return product_us(x, weights, limited);
  };
}

// batch, heads, heads of keys, queries, keys, head size, causal, dropout, masked
Law attention_law(const std::string& kind, const std::string& parameters, const Device& device) {
  const std::size_t blank = kind.find(' ');
  const Dtype dtype = dtype_named(kind.substr(blank + 1, kind.find(' ', blank + 1) - blank - 1), device);
  return
      [laws = required(Laws::parse(parameters, "PARAMETERS")), dtype, device, back = kind.starts_with("bwd")](Row r) {
        Work w = attention_work(whole(r[0]), whole(r[1]), whole(r[3]), whole(r[4]), whole(r[5]), dtype, back, r[6] > 0);
        auto& a = std::get<Attention>(w.kind);
        a.shared = whole(r[1] / r[2]), a.dropout = r[7] > 0, a.masked = r[8] > 0;
        return attention_us(w, a, laws, device);
      };
}

Work recurrent_work(const std::string& pass_and_dtype, const Device& device, Row r, Recurrent& rnn) {
  Work w(Family::kRnn);
  w.backward = pass_and_dtype.starts_with("bwd");
  w.dtype = pass_and_dtype.ends_with("fp16") ? Dtype::kFp16 : dtype_named(pass_and_dtype.substr(4), device);
  rnn = {whole(r[0]), whole(r[1]), whole(r[2]), whole(r[3]), whole(r[4]), whole(r[5]), whole(r[6])};
  return w;
}

// batch, steps, inputs, hidden units, layers, directions, gates
Law recurrent_law(const std::string& kind, const std::string& parameters, const Device& device) {
  return [laws = required(Laws::parse(parameters, "PARAMETERS")), kind, device](Row r) {
    Recurrent rnn;
    const Work w = recurrent_work(kind, device, r, rnn);
    return recurrent_us(w, rnn, TransferWeights::shipped(), laws, device);
  };
}

StreamingWeights streaming_weights(const std::string& kind, const std::string& parameters, const Device& device) {
  const Laws laws = required(Laws::parse(parameters, "PARAMETERS"));
  const StreamingWeights* found = laws.streaming(kind, device);
  if (found == nullptr) throw std::invalid_argument("no parameters of streaming " + kind);
  return *found;
}

// bytes, elements
Law elementwise_law(const std::string& kind, const std::string& parameters, const Device& device) {
  return [p = streaming_weights(kind, parameters, device), device](Row r) {
    return elementwise_us(r[0], r[1], p, device);
  };
}

// bytes, elements, tensors, lists read
Law lists_law(const std::string& kind, const std::string& parameters, const Device& device) {
  return [p = streaming_weights(kind, parameters, device), device](Row r) {
    return tensor_lists_us(r[0], r[1], r[2], r[3], p, device);
  };
}

// multiplications, multiplications of one thread
Law direct_law(const std::string& kind, const std::string& parameters, const Device& device) {
  return [p = streaming_weights(kind, parameters, device), device](Row r) {
    return direct_convolution_us(r[0], r[1], p, device);
  };
}

// measured us, bytes, blocks; the kind is the GPU it was measured on
Law same_kernel_law(const std::string& origin, const std::string& parameters, const Device& device) {
  return [p = streaming_weights("same kernel", parameters, device), from = device_named(origin), device](Row r) {
    return same_kernel_us(r[0], r[1], {whole(r[2])}, from, device, 0, p);
  };
}

// batch, channels, height, width, output channels, filter's height and width, output's height and width, stride, dimensions, dilation,
// groups; `set` is "dense fwd half nhwc".
Work convolution_work(const std::string& set, Row r) {
  const auto has = [&](const char* word) { return set.find(word) != std::string::npos; };
  Work w(has("dgrad") ? Family::kConvDataGrad : has("wgrad") ? Family::kConvWeightGrad : Family::kConvForward);
  w.dtype = w.out_dtype = has("half") ? Dtype::kFp16 : has("tf32") ? Dtype::kTf32 : Dtype::kFp32;
  Convolution c;
  c.input = {whole(r[0]), whole(r[1]), whole(r[2]), whole(r[3])};
  c.out_channels = whole(r[4]), c.kernel_h = whole(r[5]), c.kernel_w = whole(r[6]), c.out_h = whole(r[7]);
  c.out_w = whole(r[8]), c.stride = whole(r[9]), c.dimensions = whole(r[10]), c.dilation = whole(r[11]);
  c.groups = whole(r[12]), c.channels_last = set.ends_with("nhwc");
  w.kind = c;
  return w;
}

Law convolution_law(const std::string& set, const std::string& parameters, const Device& device) {
  const ConvolutionSets sets = parse_convolutions(parameters);
  const auto found = sets.find(set);
  if (found == sets.end()) throw std::invalid_argument("no parameters of " + set);
  return [set, p = found->second, device](Row r) { return convolution_us(convolution_work(set, r), p, device); };
}

// A convolution's row, then a kernel that shows the algorithm (kTransforms); bytes of scratch memory, NaN where no law is known.
Law scratch_law(const std::string& set, const std::string&, const Device&) {
  return [set](Row r) {
    static constexpr std::array<std::string_view, 7> kTransforms = {"winograd_nonfused_4x4",
                                                                    "fft2d_r2c_16x16 flip_filter",
                                                                    "fft2d_r2c_32x32 flip_filter",
                                                                    "fft2d_r2c_64x64 flip_filter",
                                                                    "fft2d_r2c_16x16",
                                                                    "fft2d_r2c_32x32",
                                                                    "fft2d_r2c_64x64"};
    const std::string_view kernel = kTransforms.at(static_cast<std::size_t>(r[13]));
    Work w = convolution_work(set, r);
    refresh(w);
    const std::optional<std::int64_t> bytes = scratch_bytes(w, algorithm_of_kernels({&kernel, 1}));
    return bytes ? static_cast<double>(*bytes) : std::numeric_limits<double>::quiet_NaN();
  };
}

// us alone, blocks, rows and columns of a product's result (0: none), SMs of the GPU, SMs a collective's blocks hold; the kind is the
// kernel's name. Times during that collective.
Law contention_law(const std::string& kernel, const std::string&, const Device& device) {
  const double begin_us = static_cast<double>(latencies_of(device).short_kernel) / 1e3;
  return [kernel, part = Device(device), begin_us](Row r) mutable {
    part.sm_count = static_cast<int>(r[4]);
    const LaunchedKernel launched{kernel, whole(r[1]), whole(r[2]), whole(r[3]), r[0], begin_us};
    return r[0] / speed_during_collective(launched, part, static_cast<int>(r[5]));
  };
}

// ranks, ranks in a node, bytes; inside a node: kind of link (0 NVLink, 1 PCIe), GB/s, scale of latencies, whether the switch adds up;
// between nodes: GB/s, scale. 0 GB/s: there is no such level. Then algorithm and protocol, or -1 for the cheapest.
Law collective_law(const std::string& kind, const std::string& parameters) {
  const std::optional<Collective> collective = parse_collective(kind);
  if (!collective) throw std::invalid_argument("no collective is called " + kind);
  return [collective, known = parse_protocols(parameters)](Row r) {
    Fabric fabric;
    fabric.gpus_per_node = static_cast<int>(r[1]);
    const auto add = [&](LinkKind link, double gbs, double scale, bool nvls) {
      FabricLevel level;
      level.link = link, level.gbs = gbs, level.nvls = nvls;
      level.latency_scale = scale / known.typical_scale[static_cast<std::size_t>(link)];
      fabric.levels.push_back(level);
    };
    if (r[4] > 0) add(static_cast<LinkKind>(r[3]), r[4], r[5], r[6] > 0);
    if (r[7] > 0) add(LinkKind::kNetwork, r[7], r[8], false);
    const FabricCollectives model(std::move(fabric), known);
    const CollectiveCall call{*collective, r[2], static_cast<int>(r[0])};
    if (r[9] >= 0) {
      const std::optional<double> us = model.micros(call, static_cast<Algorithm>(r[9]), static_cast<Protocol>(r[10]));
      return us.value_or(std::numeric_limits<double>::quiet_NaN());
    }
    double best = std::numeric_limits<double>::infinity();
    for (const Algorithm a : {Algorithm::kRing, Algorithm::kTree, Algorithm::kNvls, Algorithm::kNvlsTree}) {
      for (const Protocol p : {Protocol::kLL, Protocol::kLL128, Protocol::kSimple}) {
        best = std::min(best, model.micros(call, a, p).value_or(best));
      }
    }
    return best;
  };
}

// phase (0 forward, 1 backward, 2 update), µs as traced less recording, operations, layers, launches, generated kernels among them, speed
// of the trace. "time": the phase without the profiler; "launches": by the number of its launches alone.
Law host_law(const std::string& kind, const std::string& parameters) {
  return [kind, costs = required(host::HostCosts::parse(parameters, "PARAMETERS"))](Row r) {
    const auto phase = static_cast<std::size_t>(r[0]);
    host::PhaseCounts counts;
    counts.ops[phase] = r[2], counts.layers[phase] = r[3], counts.launches[phase] = r[4],
    counts.generated[phase] = r[5];
    if (kind == "launches") return counts.launches_us(phase, costs);
    return r[1] * host::remaining_share(static_cast<Ns>(r[1] * 1e3), phase, counts, r[6], costs);
  };
}

Law law_named(const std::string& asked, const std::string& parameters, const std::string& device) {
  const std::size_t blank = asked.find(' ');
  const std::string name = asked.substr(0, blank), kind = asked.substr(blank + 1);
  if (name == "collective") return collective_law(kind, parameters);
  if (name == "host") return host_law(kind, parameters);
  using Make = Law (*)(const std::string&, const std::string&, const Device&);
  static const std::map<std::string, Make, std::less<>> kLaws = {
      {"product", product_law},     {"attention", attention_law},     {"contention", contention_law},
      {"recurrent", recurrent_law}, {"elementwise", elementwise_law}, {"lists", lists_law},
      {"direct", direct_law},       {"same_kernel", same_kernel_law}, {"convolution", convolution_law},
      {"scratch", scratch_law}};
  const auto found = kLaws.find(name);
  if (found == kLaws.end()) throw std::invalid_argument("no law is called " + name);
  return found->second(kind, parameters, device_named(device));
}

std::string& last() {
  static std::string text;
  return text;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const char* last_error() { return last().c_str(); }

__attribute__((visibility("default"))) int evaluate(const char* law, const char* parameters, const char* device,
                                                    const double* rows, std::size_t count, std::size_t columns,
                                                    double* times) {
  try {
    const Law us = law_named(law, parameters, device);
    for (std::size_t i = 0; i < count; ++i) times[i] = us({rows + i * columns, columns});
    return 0;
  } catch (const std::exception& error) {
    last() = error.what();
    return -1;
  }
}

/// In words: "relative" is the measured architecture most like the device's own; "fwd fp16", with a row as of the law of recurrent
/// layers, the kind of that law.
__attribute__((visibility("default"))) const char* describe(const char* what, const char* device, const double* row) {
  const Device& d = device_named(device);
  const std::string asked = what;
  if (asked == "relative") return (last() = architecture_of(d).nearest).c_str();
  Recurrent rnn;
  const Work w = recurrent_work(asked, d, {row, 7}, rnn);
  return (last() = recurrent_kind(w, rnn)).c_str();
}
}
