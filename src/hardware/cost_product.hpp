#pragma once
// The time of a matrix product on any GPU by its law, from the figures of the device: tiles in waves over the SMs, under the roofline,
// the power limit and memory. Parameters are plain data: transfer/products.csv, fitted by
// tools/train_transfer.py to products measured on thirteen GPUs, and for the architecture of an H200 transfer/H200-SXM.csv, fitted
// by tools/fit_products.py to those of data/. The tools call this function (tools/laws.cpp).
// What-ifs take the ratio of the law before and after a change, corrected by the residual of measured kernels (estimate.cpp). Moving to
// another GPU takes the ratio of the law on both GPUs (transfer.cpp).
//
// Grows with batch, m, n and k; never grows with SMs, clock, rates, bandwidth, L2 or power, each taken alone: every term is
// built from monotone parts, and the best tile is a minimum of such functions.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foretrace/base/result.hpp"
#include "hardware/cost.hpp"
#include "hardware/parameter_sets.hpp"

namespace foretrace::hardware {

using work::Dtype;
using work::Family;
using work::Work;

/// Kinds of product that are fitted apart.
/// TF32's own are known of one architecture; others take those of half precision.
enum class ProductKind : std::uint8_t { kHalf, kFp32, kFp32Batched, kConv, kTf32 };
inline constexpr std::size_t kProductKinds = 5;
std::string_view to_string(ProductKind kind);

/// One set of parameters; tools/laws.py says what each means and between which bounds it was looked for.
struct ProductWeights {
  double start = 0, pad = 0, share = 1, traffic = 0, start_k = 0, fill = 0, step = 0, load = 1, round = 0, memory = 1,
         cache = 0, hit = 0, blend = 2, split = 0;
  double transform = 0;    ///< of convolutions: traffic of a Winograd algorithm's transforms
  double host = 0;         ///< of the tables only: share of the host's floor that adds to a kernel
  double carry_other = 0;  ///< share of what the model misses on the origin that an unlike target misses too
  /// The same by the origin's architecture ("8.0"), where products were measured on both.
  std::vector<std::pair<std::string, double>> carry_from;
  /// Of what all products of a step miss together: the share an unlike target misses too, where the origin's architecture was
  /// measured and where not; beyond `most_common` (of log time) it is the origin's own.
  double common_known = 0, common_new = 0, most_common = 0;
  /// Of log time, around what is carried to a GPU whose architecture was measured, and to one of another.
  double spread_known = 0, spread_new = 0;
  std::vector<std::pair<double, double>> tiles;
};

/// Sets the parameter of that name, as tables spell it; false where there is none.
bool set_parameter(ProductWeights& weights, std::string_view name, double value);

/// "128x64 64x64"; nothing where a tile is no such pair.
std::vector<std::pair<double, double>> parse_tiles(std::string_view text);

/// By kind, architecture and device.
class TransferWeights {
 public:
  explicit TransferWeights(const DataFiles& files = DataFiles::shipped()) : sets_(files) {}
  /// Rows of kind, architecture, parameter and value. Sets of all kinds for any architecture must be among them, or in `base`, whose
  /// others they replace. `device`: the one they were measured on, empty for those of many.
  static Result<TransferWeights> parse(std::string_view csv, const std::string& origin,
                                       TransferWeights base = TransferWeights(), std::string_view device = {});
  /// All of hardware/transfer.
  static TransferWeights read(const DataFiles& files);
  static const TransferWeights& shipped();
  /// As ParameterSets::find says; TF32 takes those of half precision where it has none.
  [[nodiscard]] const ProductWeights& of(ProductKind kind, const Device& device) const;
  /// Whether products of this kind were measured on the device's architecture.
  [[nodiscard]] bool knows(ProductKind kind, const Device& device) const;

 private:
  ParameterSets<ProductWeights> sets_;
};

/// One product, or a convolution seen as one.
struct Product {
  ProductKind kind = ProductKind::kFp32;
  Dtype dtype = Dtype::kFp32;  ///< what the device really multiplies in
  double batch = 1, m = 0, n = 0, k = 0;
  double element_bytes = 4;
  double bytes =
      0;  ///< what is read and written, where that is not the operands' sizes: a convolution's patches overlap
  /// Of a 3 x 3 convolution with stride 1 in strict fp32, which may run by Winograd's algorithms; images is 0 otherwise.
  double images = 0, channels = 0, out_channels = 0, height = 0, width = 0, out_height = 0, out_width = 0;
};

/// Whose parameters a product follows. The one table of convolutions is of 3 x 3 with stride 1, where Winograd's algorithms run;
/// all others are products of their patches: ResNet-50's forward layers add up to 6.7 ms on an H200 so and to 20.7 on a V100, where
/// traces measured 7.1 and 18.1.
ProductKind fitted_kind(const Product& product);
/// The product behind a piece of work on this device (a GPU without TF32 multiplies in FP32); m is 0 when its sizes are unknown.
Product product_of(const Work& work, const Device& device);
double product_us(const Product& product, const ProductWeights& weights, const Device& device);
/// The time of the work's product with the best kernel there is: where tensor cores gain nothing, the one without them. 0 when its
/// sizes are unknown.
double best_product_us(const Work& work, const TransferWeights& weights, const Device& device);

/// GPUs whose kernels are the same: one vendor, one compute capability.
bool same_silicon(const Device& a, const Device& b);

}  // namespace foretrace::hardware
