// What an HLO instruction computes: products and convolutions from their dimension numbers, everything else from what it
// reads and writes.

#include <simdjson.h>

#include <algorithm>
#include <cmath>

#include "base/saturate.hpp"
#include "base/text.hpp"
#include "trace/importers/hlo_module.hpp"
#include "trace/importers/proto_wire.hpp"
#include "trace/tensor_size.hpp"

namespace foretrace::trace {

HloDot read_dot(std::string_view bytes) {
  HloDot out;
  for (ProtoWire w(bytes); w.next();) {
    if (w.field == 1) w.append_to(out.lhs_contracting);
    if (w.field == 2) w.append_to(out.rhs_contracting);
    if (w.field == 3) w.append_to(out.lhs_batch);
    if (w.field == 4) w.append_to(out.rhs_batch);
  }
  return out;
}

// The same, as the JSON of a library call's backend_config has it: numbers as texts.
bool read_config_dot(std::string_view config, HloDot& out) {
  const simdjson::padded_string padded(config);
  simdjson::dom::parser parser;
  simdjson::dom::object root, gemm, dims;
  if (parser.parse(padded).get(root) != simdjson::SUCCESS) return false;
  if (root["gemm_backend_config"].get(gemm) != simdjson::SUCCESS) gemm = root;
  if (gemm["dot_dimension_numbers"].get(dims) != simdjson::SUCCESS) return false;
  const auto list = [&](const char* key, std::vector<std::int64_t>& to) {
    simdjson::dom::array values;
    if (dims[key].get(values) != simdjson::SUCCESS) return;
    for (const simdjson::dom::element v : values) {
      std::int64_t number = 0;
      std::string_view text;
      if (v.get(text) == simdjson::SUCCESS) {
        number = std::atoll(std::string(text).c_str());
      } else if (v.get(number) != simdjson::SUCCESS) {
        continue;
      }
      to.push_back(number);
    }
  };
  list("lhs_contracting_dimensions", out.lhs_contracting);
  list("rhs_contracting_dimensions", out.rhs_contracting);
  list("lhs_batch_dimensions", out.lhs_batch);
  list("rhs_batch_dimensions", out.rhs_batch);
  return true;
}

namespace {

/// batch, m, n, k; all 0 where the numbers do not fit the shapes.
std::array<std::int64_t, 4> product(const HloShape& lhs, const HloShape& rhs, const HloDot& dims) {
  const auto holds = [](const std::vector<std::int64_t>& list, std::size_t d) {
    return std::find(list.begin(), list.end(), static_cast<std::int64_t>(d)) != list.end();
  };
  std::array<std::int64_t, 4> out{1, 1, 1, 1};
  for (std::size_t d = 0; d < lhs.dims.size(); ++d) {
    std::int64_t& to = holds(dims.lhs_batch, d) ? out[0] : holds(dims.lhs_contracting, d) ? out[3] : out[1];
    to = saturated_product(to, lhs.dims[d]);
  }
  for (std::size_t d = 0; d < rhs.dims.size(); ++d) {
    if (!holds(dims.rhs_batch, d) && !holds(dims.rhs_contracting, d)) out[2] = saturated_product(out[2], rhs.dims[d]);
  }
  const bool possible = std::all_of(out.begin(), out.end(), [](std::int64_t n) { return n > 0 && n <= kMostElements; });
  return possible ? out : std::array<std::int64_t, 4>{};
}

double flops_of(const std::array<std::int64_t, 4>& gemm) {
  double flops = gemm[0] > 0 ? 2 : 0;
  for (const std::int64_t d : gemm) flops *= static_cast<double>(d);
  return flops;
}

bool is_integer(int type) {
  const std::string_view name = hlo_type_name(type);
  return name.starts_with("s") || name.starts_with("u") || name == "pred";
}

constexpr int kTupleType = 13;

// PrecisionConfig: operand_precision = 1 (0: as the hardware likes best, 1: high, 2: highest), algorithm = 2. With FP32 operands
// XLA's products take TF32 unless the highest precision is asked for of either; an algorithm that is named holds: all but those that split an
// operand into several of BF16 or TF32 are FP32 or TF32 themselves.
constexpr std::int64_t kHighest = 2;
constexpr std::int64_t kDotInTf32 = 8;  // ALG_DOT_TF32_TF32_F32
bool allows_tf32(std::string_view precision) {
  std::vector<std::int64_t> operands;
  std::int64_t algorithm = 0;
  for (ProtoWire w(precision); w.next();) {
    if (w.field == 1) w.append_to(operands);
    if (w.field == 2) algorithm = w.integer();
  }
  if (algorithm != 0) return algorithm == kDotInTf32;
  return std::find(operands.begin(), operands.end(), kHighest) == operands.end();
}

// The same of a library's call, whose backend_config has it as text.
bool config_allows_tf32(std::string_view config) {
  if (contains(config, "ALG_DOT_TF32_TF32_F32\"")) return true;
  return !contains(config, "\"HIGHEST\"") && !contains(config, "ALG_DOT_F32");
}

std::string_view multiplied_in(int type, bool tf32) {
  const std::string_view name = hlo_type_name(type);
  return name == "f32" && tf32 ? "tf32" : name;
}

const HloShape& main_part(const HloShape& shape) {
  const HloShape* best = &shape;
  while (best->type == 13 && !best->parts.empty()) best = best->parts.data();
  return *best;
}

}  // namespace

// What of a value inside a fusion is needed, as a part of it: a gather or a slice fetches some elements, a scatter works on the
// rows it changes and leaves the others where they are, and what is computed element by element only for elements that are fetched
// is never computed for the others. Everything else needs all of it.
double HloModule::part_needed(const Computation& body, std::int64_t id, Parts& known) const {
  constexpr std::size_t kLargestBody = 2000;  // larger bodies and longer chains are taken whole
  const HloInstruction* value = at(id);
  if (value == nullptr || id == root_of(body) || body.order.size() > kLargestBody) return 1;
  const auto [it, added] = known.try_emplace(id, 1.0);
  if (!added) return it->second;
  const double part = part_used(body, *value, known);
  known[id] = part;
  return part;
}

double HloModule::part_used(const Computation& body, const HloInstruction& value, Parts& known) const {
  const std::int64_t id = value.id;
  const double all = static_cast<double>(std::max<std::int64_t>(1, value.shape.elements()));
  double part = 0;
  bool used = false;
  for (const std::int64_t user_id : body.order) {
    const HloInstruction* user = at(user_id);
    if (user == nullptr) continue;
    const auto& from = user->operands;
    const auto place = std::find(from.begin(), from.end(), id);
    if (place == from.end()) continue;
    used = true;
    const std::string_view op = user->opcode;
    const bool table = place == from.begin();
    const auto elements_of_operand = [&](std::size_t i) {
      const HloInstruction* operand = i < from.size() ? at(from[i]) : nullptr;
      return operand == nullptr ? all : static_cast<double>(operand->shape.elements());
    };
    if (table && (op == "gather" || op == "dynamic-slice" || op == "slice")) {
      part += static_cast<double>(user->shape.elements()) / all * part_needed(body, user_id, known);
    } else if (table && op == "scatter") {
      part += elements_of_operand(2) / all;
    } else if (table && op == "dynamic-update-slice") {
      part += elements_of_operand(1) / all;
    } else if (op == "tuple") {
      part = 1;
    } else if (user->shape.type != kTupleType && user->shape.elements() == value.shape.elements() && op != "dot" &&
               op != "convolution") {
      part += part_needed(body, user_id, known);
    } else {
      part = 1;
    }
    if (part >= 1) return 1;
  }
  return used ? part : 1;
}

std::int64_t HloModule::root_of(const Computation& body) const {
  return body.root >= 0 || body.order.empty() ? body.root : body.order.back();
}

// A gather reads the rows it fetches, not the table; so does a slice.
double HloModule::bytes_of_operand(const HloInstruction& in, std::size_t operand) const {
  const HloInstruction* source = at(in.operands[operand]);
  if (source == nullptr) return 0;
  const double whole = source->shape.bytes();
  if (in.opcode == "gather" || in.opcode == "dynamic-slice" || in.opcode == "slice") {
    return operand == 0 ? std::min(whole, in.shape.bytes()) : whole;
  }
  if (in.opcode != "fusion" || in.calls.empty()) return whole;
  const auto body = computations_.find(in.calls.front());
  if (body == computations_.end()) return whole;
  // The parameter of the fusion that stands for this operand.
  std::int64_t parameter = -1;
  for (const std::int64_t id : body->second.order) {
    const HloInstruction* inner = at(id);
    if (inner == nullptr || inner->opcode != "parameter") continue;
    if (inner->parameter == static_cast<std::int64_t>(operand)) parameter = id;
  }
  Parts known;
  return parameter < 0 ? whole : whole * part_needed(body->second, parameter, known);
}

// What a fusion writes: of a scatter or an update in place the rows it changes.
double HloModule::bytes_written_by(const HloInstruction& in) const {
  const HloShape& result = in.opcode == "custom-call" ? main_part(in.shape) : in.shape;
  const auto changed = [&](const HloInstruction* root) {
    for (int depth = 0; root != nullptr && depth < 8; ++depth) {
      const bool scatter = root->opcode == "scatter";
      if (scatter || root->opcode == "dynamic-update-slice") {
        const std::size_t i = scatter ? 2 : 1;
        const HloInstruction* update = i < root->operands.size() ? at(root->operands[i]) : nullptr;
        return update == nullptr ? root->shape.bytes() : std::min(root->shape.bytes(), update->shape.bytes());
      }
      if (root->opcode != "bitcast" || root->operands.empty()) break;
      root = at(root->operands.front());
    }
    return -1.0;
  };
  if (in.opcode != "fusion" || in.calls.empty()) {
    const double part = changed(&in);
    return part >= 0 ? part : result.bytes();
  }
  const auto body = computations_.find(in.calls.front());
  const HloInstruction* root = body == computations_.end() ? nullptr : at(root_of(body->second));
  if (root == nullptr) return result.bytes();
  double bytes = 0;
  const std::size_t parts = root->opcode == "tuple" ? root->operands.size() : 1;
  for (std::size_t i = 0; i < parts; ++i) {
    const HloInstruction* one = root->opcode == "tuple" ? at(root->operands[i]) : root;
    const double part = changed(one);
    bytes += part >= 0 ? part : one == nullptr ? 0 : one->shape.bytes();
  }
  return std::min(bytes, result.bytes());
}

void HloModule::look_inside(const HloInstruction& fusion, CompiledOp& out, int depth) const {
  constexpr int kDeepest = 4;
  if (depth > kDeepest) return;
  bool moves_only = true;
  bool reduces = false;
  bool gathers = false;
  for (const std::int64_t called : fusion.calls) {
    const auto body = computations_.find(called);
    if (body == computations_.end()) continue;
    for (const std::int64_t id : body->second.order) {
      const HloInstruction* in = at(id);
      if (in == nullptr) continue;
      const std::string_view op = in->opcode;
      if (op == "fusion" || op == "call") look_inside(*in, out, depth + 1);
      if (op == "dot" && in->operands.size() >= 2 && at(in->operands[0]) != nullptr && at(in->operands[1]) != nullptr) {
        const auto sizes = product(at(in->operands[0])->shape, at(in->operands[1])->shape, read_dot(in->dot));
        if (flops_of(sizes) > flops_of(out.gemm)) {
          out.gemm = sizes;
          out.dtype = multiplied_in(main_part(at(in->operands[0])->shape).type, allows_tf32(in->precision));
        }
        out.flops += flops_of(sizes);
        out.family = "gemm";
      }
      if (op == "convolution") set_convolution(*in, out);
      reduces = reduces || op == "reduce" || op == "reduce-window";
      gathers = gathers || op == "gather" || op == "scatter";
      moves_only = moves_only && (op == "parameter" || op == "transpose" || op == "bitcast" || op == "reshape" ||
                                  op == "copy" || op == "convert" || op == "slice" || op == "concatenate" ||
                                  op == "constant" || op == "tuple" || op == "pad");
    }
  }
  if (!out.family.empty() || depth > 0) return;
  out.family = gathers ? "gather" : reduces ? "reduction" : moves_only ? "copy" : "elementwise";
}

// ConvolutionDimensionNumbers: input batch 7, feature 8, spatial 11; kernel output feature 3, input feature 4, spatial 6; output
// batch 9, feature 10, spatial 12. Window: dimensions 1 {size 1, stride 2}.
void HloModule::set_convolution(const HloInstruction& in, CompiledOp& out) const {
  if (in.operands.size() < 2) return;
  const HloInstruction* first = at(in.operands[0]);
  const HloInstruction* second = at(in.operands[1]);
  if (first == nullptr || second == nullptr || in.conv.empty()) return;
  // The three tensors of the forward convolution, whichever of them is computed.
  const bool data = contains(in.target, "BackwardInput");
  const bool weight = contains(in.target, "BackwardFilter");
  const HloShape& result = main_part(in.shape);
  const HloShape& input = data ? result : main_part(first->shape);
  const HloShape& kernel = weight ? result : main_part(second->shape);
  const HloShape& output = data ? main_part(first->shape) : weight ? main_part(second->shape) : result;
  std::int64_t in_batch = 0, in_feature = 0, k_out = 0, out_feature = 0;
  std::vector<std::int64_t> in_spatial, k_spatial, out_spatial;
  for (ProtoWire w(in.conv); w.next();) {
    if (w.field == 7) in_batch = w.integer();
    if (w.field == 8) in_feature = w.integer();
    if (w.field == 3) k_out = w.integer();
    if (w.field == 10) out_feature = w.integer();
    if (w.field == 11) w.append_to(in_spatial);
    if (w.field == 6) w.append_to(k_spatial);
    if (w.field == 12) w.append_to(out_spatial);
  }
  std::int64_t stride = 1;
  for (ProtoWire w(in.window); w.next();) {
    for (ProtoWire d(w.bytes); w.field == 1 && d.next();) {
      if (d.field == 2) stride = std::max<std::int64_t>(stride, std::min<std::int64_t>(d.integer(), 1 << 20));
    }
  }
  const auto size = [](const HloShape& s, std::int64_t d) {
    return d >= 0 && d < static_cast<std::int64_t>(s.dims.size()) ? s.dims[static_cast<std::size_t>(d)] : 1;
  };
  // Height and width; what a volume has more multiplies the height, a signal has height 1.
  const auto plane = [&](const HloShape& s, const std::vector<std::int64_t>& spatial, std::int64_t& h,
                         std::int64_t& w) {
    h = w = 1;
    for (std::size_t i = 0; i < spatial.size(); ++i) {
      std::int64_t& to = i + 1 == spatial.size() ? w : h;
      to = saturated_product(to, size(s, spatial[i]));
    }
  };
  auto& c = out.conv;
  c[0] = size(input, in_batch);
  c[1] = size(input, in_feature);
  plane(input, in_spatial, c[2], c[3]);
  c[4] = size(output, out_feature);
  plane(output, out_spatial, c[5], c[6]);
  plane(kernel, k_spatial, c[7], c[8]);
  c[9] = stride;
  c[10] = in.feature_groups;
  c[11] = in_feature + 1 == static_cast<std::int64_t>(input.dims.size()) ? 1 : 0;
  const double taps = static_cast<double>(elements_of(kernel.dims)) /
                      static_cast<double>(std::max<std::int64_t>(1, size(kernel, k_out)));
  out.flops += 2 * static_cast<double>(elements_of(output.dims)) * taps;
  out.family = data ? "convolution-data" : weight ? "convolution-weight" : "convolution";
  out.dtype = multiplied_in(input.type, allows_tf32(in.precision));
}

void HloModule::set_sizes(const HloInstruction& in, CompiledOp& out) const {
  const std::string_view target = in.target;
  const bool library_product = contains(target, "cublas") || contains(target, "gemm");
  if (library_product && in.operands.size() >= 2 && at(in.operands[0]) != nullptr && at(in.operands[1]) != nullptr) {
    HloDot dims;
    if (read_config_dot(in.config, dims)) {
      out.gemm = product(at(in.operands[0])->shape, at(in.operands[1])->shape, dims);
      out.flops = flops_of(out.gemm);
    }
    out.family = "gemm";
    out.dtype = multiplied_in(main_part(at(in.operands[0])->shape).type, config_allows_tf32(in.config));
  } else if (contains(target, "conv") || in.opcode == "convolution") {
    set_convolution(in, out);
  } else if (contains(target, "fmha")) {
    out.family = "attention";
  } else if (in.opcode == "fusion") {
    look_inside(in, out, 0);
  }
  // What a library call writes in addition to its result is scratch memory.
  const HloShape& result = in.opcode == "custom-call" ? main_part(in.shape) : in.shape;
  out.bytes_written = bytes_written_by(in);
  out.elements = result.elements();
  out.out_dtype = hlo_type_name(main_part(result).type);
  double largest = -1;
  std::int64_t largest_elements = 0;
  for (std::size_t i = 0; i < in.operands.size(); ++i) {
    const HloInstruction* operand = at(in.operands[i]);
    if (operand == nullptr) continue;
    const double bytes = bytes_of_operand(in, i);
    out.bytes_read += bytes;
    const HloShape& shape = main_part(operand->shape);
    if (is_integer(shape.type)) {
      out.fixed_read += bytes;
    } else if (bytes > largest) {
      largest = bytes;
      largest_elements = shape.elements();
      if (out.gemm[0] == 0 && out.conv[0] == 0) out.dtype = hlo_type_name(shape.type);
    }
  }
  if (out.dtype.empty()) out.dtype = out.out_dtype;
  if (out.gemm[0] == 0 && out.conv[0] == 0) keep_wide(in, out);
  if (out.family == "reduction") {
    out.rows = std::max<std::int64_t>(1, out.elements);
    out.elements = std::max(out.elements, largest_elements);
  }
  if (out.family == "gather") out.rows = out.elements;
  if (out.family.empty())
    out.family = in.opcode == "copy" ? "copy" : in.opcode == "custom-call" ? "other" : "elementwise";
}

}  // namespace foretrace::trace
