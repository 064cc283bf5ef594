#pragma once
// The law of cuDNN's batch norm over images whose channels come first: a block takes a channel and goes over it twice. With few channels most SMs are
// idle and the speed of a block decides; with many, memory bandwidth. Parameters: laws/channel_norms.csv (tools/fit_channel_norms.py).

#include "foretrace/hardware/device.hpp"
#include "foretrace/work/work.hpp"
#include "hardware/laws.hpp"

namespace foretrace::hardware {

/// 0 where another kernel runs: channels innermost, BF16, vectors, a channel that stays on chip, another maker's library.
double channel_norm_us(const work::Work& work, const Laws& laws, const Device& device);

}  // namespace foretrace::hardware
