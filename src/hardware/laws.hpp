#pragma once
// Parameters of the laws of fused attention, recurrent layers and work that streams: laws/*.csv, written by tools/fit_laws.py from
// measurements on an H200 (data/) and on other GPUs (public tables), with the remaining error of each set. tools/laws.py gives the
// meaning and the bounds of each parameter.

#include <string>
#include <string_view>

#include "foretrace/base/result.hpp"
#include "foretrace/hardware/device.hpp"
#include "hardware/parameter_sets.hpp"

namespace foretrace::hardware {

struct AttentionWeights {
  double rows = 0, columns = 0;  ///< of a block: queries it takes (in the gradient: keys), and how many keys at a time
  double start = 0, share = 1, soft = 0, drop = 0, fill = 0, load = 1, pad_rows = 0, pad_columns = 0, pad_size = 0,
         wide = 0, round = 0, cache = 0, sharp = 1, memory = 1, blend = 1;
};

struct RecurrentWeights {
  double start = 0, product = 1, recurrent = 1, cell = 0, move = 1, tail = 0, concurrency = 0, weights = 0, samples = 0,
         begin = 0;
};

struct StreamingWeights {
  double start = 0;    ///< us
  double handled = 0;  ///< elements that the SM of an H200 handles in a clock; 0: memory alone limits
  double share = 1;    ///< of the streaming bandwidth
  double overlap = 2;  ///< joins memory and handling: large is the maximum, 1 the sum
  double per_list = 0, block = 0,
         uneven = 1;  ///< of lists: us of a launch; elements of a block in a clock; the largest tensor over the mean
  /// Of direct convolutions: multiplications of one thread per clock with no other thread to hide its latency; and the total time of the
  /// kernels of a loop over groups, which run concurrently, at which the loop ends when the direct kernel does: a multiple of its time.
  double alone = 0, loop_factor = 1;
  double plane = 0;  ///< of batch norms: clocks a block takes for the plane of a sample, on top of its elements
  double short_spread = 0, spread = 0;  ///< of log time: of kernels below `short_us`, and of longer ones
  double short_us = 0;
  /// Of a kernel that goes to another GPU as it is (transfer_same.cpp).
  double sharp = 0, slack = 0, intensity = 0, fastest = 0, step = 0, reach = 0, l2_rate = 0, beyond_narrow = 0;
};

/// By law, kind of work ("fwd half", "copy strided") and architecture ("any", "9.0").
class Laws {
 public:
  explicit Laws(const DataFiles& files = DataFiles::shipped())
      : attention_(files), recurrent_(files), streaming_(files) {}
  /// Rows of law, kind, architecture, parameter and value; those of `base` are kept where nothing replaces them. `device`: the one
  /// they were measured on, empty for those of many.
  static Result<Laws> parse(std::string_view csv, const std::string& origin, Laws base = Laws(),
                            std::string_view device = {});
  /// All of hardware/laws.
  static Laws read(const DataFiles& files);
  static const Laws& shipped();

  // As ParameterSets::find says.
  [[nodiscard]] const AttentionWeights* attention(std::string_view kind, const Device& device) const {
    return attention_.find(kind, device);
  }
  /// For a comparison of two devices: the parameters of their architecture where it is the same, else those of any.
  [[nodiscard]] const AttentionWeights* attention(std::string_view kind, const Device& device,
                                                  const Device& other) const {
    return attention_.find(kind, architecture_of(device).laws == architecture_of(other).laws ? device : Device{});
  }
  [[nodiscard]] const RecurrentWeights* recurrent(std::string_view kind, const Device& device) const {
    return recurrent_.find(kind, device);
  }
  [[nodiscard]] const StreamingWeights* streaming(std::string_view kind, const Device& device) const {
    return streaming_.find(kind, device);
  }

 private:
  ParameterSets<AttentionWeights> attention_;
  ParameterSets<RecurrentWeights> recurrent_;
  ParameterSets<StreamingWeights> streaming_;
};

}  // namespace foretrace::hardware
