#pragma once
// How a library computes a convolution, and the scratch memory it needs for it. Outside tensor cores, convolutions may use transforms
// (Winograd's, Fourier's), whose intermediate results are in memory: gigabytes of them, which follow the batch only in part.
//
//   const ConvAlgorithm ran = algorithm_of_kernels({"void fft2d_r2c_32x32<…>", "…cgemm…"});      // kFourierTiles, 32
//   scratch_bytes(convolution, ran);                                                   // as cuDNN asks for it, to the byte
//   chosen_algorithm(twice_the_batch, convolution, ran);                                   // what it takes there

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "foretrace/hardware/device.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::hardware {

struct ConvAlgorithm {
  enum class Method : std::uint8_t {
    kProduct,       ///< of patches that are never written: no scratch memory but copies into another layout
    kWinograd,      ///< transforms of tiles, a product of each of their 36 elements, and back
    kFourier,       ///< transforms of whole images, operands turned round
    kFourierTiles,  ///< of tiles, one after the other
    kUnknown,       ///< transforms nobody has a law for
  } method = Method::kProduct;
  std::int64_t edge = 0;  ///< of a Fourier transform
  friend bool operator==(const ConvAlgorithm&, const ConvAlgorithm&) = default;
};

/// By the names of the kernels of one convolution or gradient.
ConvAlgorithm algorithm_of_kernels(std::span<const std::string_view> kernels);

/// Algorithms that cuDNN was measured to choose without autotuning: algorithms/<device>.csv (tools/fit_algorithms.py).
class ConvChoices {
 public:
  ConvChoices() = default;
  explicit ConvChoices(std::string_view csv);
  /// As measured at the nearest batch size; nothing where the layer was not measured, or never ran by a transform.
  [[nodiscard]] std::optional<ConvAlgorithm> find(const work::Work& work) const;

 private:
  using Layer = std::array<std::int64_t, 9>;                           // c h w k r s out_h out_w groups
  using Key = std::tuple<work::Family, work::Dtype, bool, Layer>;      // pass, element type, channels last
  using Series = std::vector<std::pair<std::int64_t, ConvAlgorithm>>;  // by batch
  std::map<Key, Series> by_layer_;
};

/// The algorithm of `work`, which is `recorded`, that ran by `ran`, with another batch, layout or element type: as measured where the
/// table has the layer and agrees with what ran; else the same, and products where the element type is another.
ConvAlgorithm chosen_algorithm(const work::Work& work, const work::Work& recorded, const ConvAlgorithm& ran,
                               const Device& device = {});

/// What cuDNN allocates while it runs; nothing where the law is not known or the work is no convolution.
std::optional<std::int64_t> scratch_bytes(const work::Work& work, const ConvAlgorithm& algorithm);

}  // namespace foretrace::hardware
