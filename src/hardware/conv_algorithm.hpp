#pragma once
// How a library computes a convolution, and the scratch memory it needs for it. Convolutions on the usual units may go by transforms
// (Winograd's, Fourier's), whose intermediate results lie in memory: gigabytes of them, which follow the batch only in part.
//
//   const ConvAlgorithm ran = algorithm_by({"void fft2d_r2c_32x32<…>", "…cgemm…"});      // kFourierTiles, 32
//   scratch_bytes(convolution, ran);                                                   // as cuDNN asks for it, to the byte
//   algorithm_of(twice_the_batch, convolution, ran);                                   // what it takes there

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "foretrace/work/work.hpp"

namespace foretrace::hardware {

struct ConvAlgorithm {
  enum class By : std::uint8_t {
    kProduct,       ///< of patches that are never written: no scratch memory but copies into another layout
    kWinograd,      ///< transforms of tiles, a product of each of their 36 elements, and back
    kFourier,       ///< transforms of whole images, operands turned round
    kFourierTiles,  ///< of tiles, one after the other
    kUnknown,       ///< transforms nobody has a law for
  } by = By::kProduct;
  std::int64_t edge = 0;  ///< of a Fourier transform
  friend bool operator==(const ConvAlgorithm&, const ConvAlgorithm&) = default;
};

/// By the names of the kernels of one convolution or gradient.
ConvAlgorithm algorithm_by(std::span<const std::string_view> kernels);

/// How `work` is computed, which is `recorded`, that ran by `ran`, with another batch, layout or element type: as measured where its layer
/// was, and measurements say of `recorded` what ran; else the same, and by products where the element type is another.
ConvAlgorithm algorithm_of(const work::Work& work, const work::Work& recorded, const ConvAlgorithm& ran);

/// What cuDNN allocates while it runs; nothing where the law is not known or the work is no convolution.
std::optional<std::int64_t> scratch_bytes(const work::Work& work, const ConvAlgorithm& algorithm);

}  // namespace foretrace::hardware
