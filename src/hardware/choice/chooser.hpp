#pragma once
// What a library decides before it launches anything: the algorithm, the layout, the number of kernels. All such rules are in this
// folder, separate from costs: laws give the time of what is chosen, and what-ifs and transfers look up the choice here.
//
//   kernels_of(half, 12)                // 6: a product on tensor cores is a handful of kernels
//   layout_changes(half_nchw, a100)     // operand and filter: kernels there write NCHW
//   recurrent_kernel(w, rnn)            // kPersistent: one launch walks over all time steps

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "hardware/choice/conv_algorithm.hpp"
#include "hardware/choice/layout_changes.hpp"
#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

/// How many kernels a product runs as when `work` differs in precision, layout or algorithm from what was measured with
/// `measured` kernels: never more, and few where the libraries' algorithms for the new one need few.
std::size_t kernels_of(const Work& work, std::size_t measured);

// ---- Convolutions

/// Whether Winograd's algorithms can do it, outside tensor cores: 3 x 3 taps next to each other, without stride and groups.
bool winograd_can_do(const Convolution& convolution);
/// The tensors that are copied into another layout on this device: none without tensor cores, whose kernels read NCHW, and no results
/// where kernels write NCHW themselves.
std::vector<LayoutChange> layout_changes(const Work& convolution, const Device& device);
/// A convolution as its kernel reads it: those on tensor cores work channels last.
Work in_kernel_layout(const Work& convolution);
/// Whether autotuning tries cuDNN's direct kernel for the groups of a convolution: one launch, no tensor cores.
bool tries_direct_kernel(const Work& convolution);
/// And keeps it. The kernels of groups that run one by one overlap: they add up to `overlap` times the time they take together.
///
///     16 groups of 48 channels, 128 taps, one signal of 249 in bfloat16: 12 ms of kernels on 8 streams, 1.2 ms directly
bool keeps_direct_kernel(double grouped_us, double direct_us, double overlap);

// ---- Recurrent layers

enum class RecurrentKernel : std::uint8_t {
  kByStep,  ///< every step runs kernels of its own
  kKept,  ///< recurrent weights of few units stay on chip, and one kernel walks over all time steps: all types but bf16
  kPersistent,  ///< the same of more units, of some shapes in fp16
};
RecurrentKernel recurrent_kernel(const Work& work, const Recurrent& rnn);
/// Behind the names of parameters and categories: " kept", " persistent", or nothing.
std::string_view suffix(RecurrentKernel kernel);
/// Whether cuDNN's persistent kernel takes this layer.
bool persistent_rnn(Dtype dtype, const Recurrent& rnn);

}  // namespace foretrace::hardware
