// What the library itself says about measured operations of tools/gpu_accuracy.py: one line in, one line out.
//
//   gpu_figures [WEIGHTS.csv [LAWS.csv]] < requests > answers
//
//   product KIND ORIGIN TARGET batch m n k element_bytes measured_us      -> model_us on the origin, model_us on the target, transferred us
//   conv    ORIGIN TARGET images channels size out_channels kernel stride padding measured_us   -> the same, of a square fp32 convolution
//   common  KIND value                                                    -> nothing; what a whole step misses, for the products that follow
//   power   FACTOR                                                        -> nothing; the limits of power of all GPUs, from here on, times this
//   streams GB_PER_S                                                      -> nothing; what streaming kernels reach on the origin, 0: its file's
//   same_kernel ORIGIN TARGET bytes blocks threads measured_us                -> transferred us
//   attention ORIGIN TARGET batch heads kv_heads queries head_size measured_us  -> transferred us, causal, BF16, forward
//   attention_law DEVICE batch heads queries head_size causal backward          -> us by the law, BF16
//
// Behind a product's and an attention's answer stands sigma, the spread of log time that the band is made of.
//
// "-" for WEIGHTS.csv: those compiled in. measured_us of 0 or less: not known, the model's own time is carried over. Other parameters than those compiled in come from a
// file of tools/train_transfer.py; of laws: files of tools/fit_laws.py, in place of all those compiled in.

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>

#include "hardware/board_power.hpp"
#include "hardware/cost_attention.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/tables.hpp"
#include "hardware/transfer.hpp"

namespace {

using namespace foretrace;
using namespace foretrace::hardware;
using namespace foretrace::work;

double power_factor = 1;

const Device& device(const std::string& asked) {
  static std::map<std::string, Device> seen;
  const std::string name = power_factor == 1 ? asked : fmt::format("{} x {}", asked, power_factor);
  const auto it = seen.find(name);
  if (it != seen.end()) return it->second;
  Result<Device> found = device_or_file(asked);
  if (!found) {
    std::cerr << found.error().to_string() << '\n';
    std::exit(2);
  }
  return seen.emplace(name, with_power(std::move(*found), power_factor)).first->second;
}

Work work_of(const std::string& kind, double batch, double m, double n, double k) {
  const auto whole = [](double x) { return static_cast<std::int64_t>(x); };
  const Dtype dtype = kind == "half"   ? Dtype::kBf16
                      : kind == "fp16" ? Dtype::kFp16
                      : kind == "tf32" ? Dtype::kTf32
                                       : Dtype::kFp32;
  Work w = gemm_work(whole(batch), whole(m), whole(n), whole(k), dtype);
  return w;
}

Work conv_work(std::istringstream& in) {
  Work w(Family::kConvForward);
  auto& c = std::get<Convolution>(w.kind);
  std::int64_t size = 0, kernel = 0, padding = 0;
  in >> c.input[0] >> c.input[1] >> size >> c.out_channels >> kernel >> c.stride >> padding;
  c.input[2] = c.input[3] = size;
  c.kernel_h = c.kernel_w = kernel;
  c.out_h = c.out_w = (size + 2 * padding - kernel) / std::max<std::int64_t>(1, c.stride) + 1;
  refresh(w);
  return w;
}

std::string text_of(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// One file in place of all of a folder.
DataFiles replaced(DataFiles files, std::string_view folder, std::string_view text) {
  std::string_view rest = text;
  for (const DataFile& file : files.in(folder)) {
    if (!device_of(file, files).empty()) {
      files = files.with({file.path, ""});
    } else {
      files = files.with({file.path, rest});
      rest = "";
    }
  }
  return files;
}

}  // namespace

int main(int argc, char** argv) {
  DataFiles files = DataFiles::shipped();
  const std::string weights = argc > 1 && std::string_view(argv[1]) != "-" ? text_of(argv[1]) : "";
  const std::string laws = argc > 2 ? text_of(argv[2]) : "";
  if (!weights.empty()) files = replaced(files, "hardware/transfer", weights);
  if (!laws.empty()) files = replaced(files, "hardware/laws", laws);
  const Tables tables(files);
  TransferContext context;
  context.tables = &tables;
  context.alone = true;
  std::string line;
  std::string out;
  while (std::getline(std::cin, line)) {
    std::istringstream in(line);
    std::string what;
    std::string origin;
    std::string target;
    in >> what;
    if (what == "product" || what == "conv") {
      double us = 0;
      Work w;
      if (what == "product") {
        std::string kind;
        double batch = 0, m = 0, n = 0, k = 0, bytes = 0;
        in >> kind >> origin >> target >> batch >> m >> n >> k >> bytes >> us;
        w = work_of(kind, batch, m, n, k);
      } else {
        in >> origin >> target;
        w = conv_work(in);
        in >> us;
      }
      const double before = best_product_us(w, tables.products(), device(origin));
      const double after = best_product_us(w, tables.products(), device(target));
      const double measured = us > 0 ? us : before;
      const Cost cost =
          transfer(measured * 1e3, measured * 1e3, w, KernelShape{}, device(origin), device(target), context);
      fmt::format_to(std::back_inserter(out), "{} {} {} {}\n", before, after, cost.ns / 1e3, cost.sigma);
    } else if (what == "power") {
      in >> power_factor;
    } else if (what == "common") {
      std::string kind;
      double value = 0;
      in >> kind >> value;
      for (std::size_t k = 0; k < TransferContext::kKinds; ++k) {
        if (to_string(static_cast<ProductKind>(k)) == kind) context.common[k] = value;
      }
    } else if (what == "same_kernel") {
      double bytes = 0, us = 0;
      KernelShape shape;
      in >> origin >> target >> bytes >> shape.blocks >> shape.threads >> us;
      fmt::format_to(std::back_inserter(out), "{}\n",
                     same_kernel_us(us, bytes, shape, device(origin), device(target), context.streaming_gbs));
    } else if (what == "attention_law") {
      std::int64_t batch = 0, heads = 0, queries = 0, size = 0;
      int causal = 0, backward = 0;
      in >> target >> batch >> heads >> queries >> size >> causal >> backward;
      const Work w = attention_work(batch, heads, queries, queries, size, Dtype::kBf16, backward != 0, causal != 0);
      fmt::format_to(std::back_inserter(out), "{}\n",
                     attention_us(w, std::get<Attention>(w.kind), tables.laws(), device(target)));
    } else if (what == "streams") {
      in >> context.streaming_gbs;
    } else if (what == "attention") {
      std::int64_t batch = 0, heads = 0, kv_heads = 0, queries = 0, size = 0;
      double us = 0;
      in >> origin >> target >> batch >> heads >> kv_heads >> queries >> size >> us;
      Work w = attention_work(batch, heads, queries, queries, size, Dtype::kBf16, false, true);
      std::get<Attention>(w.kind).shared = std::max<std::int64_t>(1, heads / std::max<std::int64_t>(1, kv_heads));
      refresh(w);
      const Cost cost = transfer(us * 1e3, us * 1e3, w, KernelShape{}, device(origin), device(target), context);
      fmt::format_to(std::back_inserter(out), "{} {}\n", cost.ns / 1e3, cost.sigma);
    } else {
      std::cerr << "not a request: " << line << '\n';
      return 2;
    }
    if (!in) {
      std::cerr << "cannot be read: " << line << '\n';
      return 2;
    }
  }
  std::cout << out;
  return 0;
}
