#include "hardware/cost_attention.hpp"

#include <algorithm>
#include <cmath>

namespace foretrace::hardware {

namespace {

// FlashAttention's kernels are made for head sizes up to 64, 128 and 256; beyond 128 a block's operands no longer fit together.
constexpr double kHeadStep = 64;
constexpr double kWideHead = 128;

double as_double(std::int64_t v) { return static_cast<double>(v); }
double mixed(double share, double whole, double part) { return share * whole + (1 - share) * part; }

}  // namespace

std::string attention_kind(const Work& w, const Attention& a) {
  std::string kind = w.backward ? "bwd " : "fwd ";
  kind.append(is_half(w.dtype) ? "half" : w.dtype == Dtype::kTf32 ? "tf32" : "fp32");
  if (a.masked) kind.append(" masked");
  return kind;
}

namespace {

double law_us(const Work& w, const Attention& a, const AttentionWeights* found, const Device& d) {
  if (a.batch <= 0 || a.heads <= 0 || a.queries <= 0 || a.keys <= 0 || a.head_size <= 0 || d.sm_count <= 0) return 0;
  const double rate = d.flops_per_clock(w.dtype);
  if (found == nullptr || !(rate > 0) || !(d.streaming_gbs() > 0)) return 0;
  const AttentionWeights& p = *found;
  const double q = as_double(a.queries), s = as_double(a.keys), size = as_double(a.head_size);
  const double along = w.backward ? s : q, over = w.backward ? q : s;
  const double heads = as_double(a.batch) * as_double(a.heads);
  const double count = heads * mixed(p.pad_rows, std::ceil(along / p.rows), along / p.rows);
  const double walked = mixed(p.pad_columns, std::ceil(over / p.columns) * p.columns, over);
  const double padded = mixed(p.pad_size, std::ceil(size / kHeadStep) * kHeadStep, size);
  // Two products forward; five backward, one of which makes the scores again.
  const double multiplied = (w.backward ? 10 : 4) * padded / (rate * p.share) * (size > kWideHead ? 1 + p.wide : 1.0);
  const double pair = multiplied + p.soft + (a.dropout ? p.drop : 0);
  const double bytes = as_double(bytes_of(w.dtype));
  const double begin = p.fill + (w.backward ? 4 : 2) * p.rows * size * bytes / p.load;
  const double longest = begin + p.rows * walked * pair;
  const double seen = a.causal ? std::min(walked, (walked + p.columns) / 2) : walked;
  const double waves = count / d.sm_count;
  const double turns = mixed(p.round, std::ceil(waves), std::max(waves, 1.0));
  const double clock = clock_of(d);
  const double busy = std::max(turns * (begin + p.rows * seen * pair), longest) / clock;
  // The gradients of shared keys and values are added up from one for every head of queries.
  const double own = heads / as_double(std::max<std::int64_t>(1, a.shared));
  const double rows = w.backward ? 4 * heads * q + 2 * (own + heads) * s : 2 * heads * q + 2 * own * s;
  const double traffic = bytes * (size * rows + (a.masked ? as_double(a.batch) * q * s : 0));
  const double moved = traffic / (1 + std::pow(d.l2_mb * 1e6 * p.cache / traffic, p.sharp));
  const double memory = moved / (d.streaming_gbs() * p.memory * 1e3);
  return p.start + std::pow(std::pow(busy, p.blend) + std::pow(memory, p.blend), 1 / p.blend);
}

}  // namespace

double attention_us(const Work& w, const Attention& a, const Laws& laws, const Device& d) {
  return law_us(w, a, laws.attention(attention_kind(w, a), d), d);
}

double attention_ratio(const Work& w, const Attention& a, const Laws& laws, const Device& from, const Device& to) {
  const std::string kind = attention_kind(w, a);
  // Another vendor's library has other kernels: each by its own parameters.
  const bool apart = from.vendor != to.vendor;
  const AttentionWeights* const both = apart ? nullptr : laws.attention(kind, from, to);
  const double here = law_us(w, a, apart ? laws.attention(kind, from) : both, from);
  return here > 0 ? law_us(w, a, apart ? laws.attention(kind, to) : both, to) / here : 0;
}

}  // namespace foretrace::hardware
