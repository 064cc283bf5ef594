#include "trace/compiled_op.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include "base/text.hpp"
#include "trace/importers/json_text.hpp"

namespace foretrace::trace {

std::string compiled_op_json(const CompiledOp& op) {
  return fmt::format(
      R"(,"compiled":{{"op":{},"layer":{},"phase":"{}","family":"{}","dtype":"{}","out_dtype":"{}","parameters":{},"sums":{},"part":{},"flops":{:.0f},"bytes_read":{:.0f},"bytes_written":{:.0f},"fixed_read":{:.0f},"fixed_written":{:.0f},"weight":{},"elements":{},"rows":{},"gemm":[{}],"conv":[{}]}})",
      quoted_json(op.operation), quoted_json(op.layer), op.phase, op.family, op.dtype, op.out_dtype, op.of_parameters,
      op.sums_samples, op.part, op.flops, op.bytes_read, op.bytes_written, op.fixed_read, op.fixed_written, op.weight,
      op.elements, op.rows, fmt::join(op.gemm, ","), fmt::join(op.conv, ","));
}

std::optional<CompiledOp> compiled_op(const Trace& trace, ArgsId args) {
  const std::string_view tuple = trace.args.text(args);
  if (!contains(tuple, "\"compiled\":{\"op\"")) return std::nullopt;
  simdjson::dom::parser parser;
  simdjson::dom::object root, o;
  if (parser.parse(tuple.data(), tuple.size()).get(root) != simdjson::SUCCESS ||
      root["compiled"].get(o) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  CompiledOp op;
  const auto text = [&](const char* key, std::string& out) {
    std::string_view s;
    if (o[key].get(s) == simdjson::SUCCESS) out = s;
  };
  // What is not there stays as it is.
  const auto number = [&](const char* key, auto& out) {
    std::remove_reference_t<decltype(out)> value{};
    if (o[key].get(value) == simdjson::SUCCESS) out = value;
  };
  text("op", op.operation);
  text("layer", op.layer);
  text("phase", op.phase);
  text("family", op.family);
  text("dtype", op.dtype);
  text("out_dtype", op.out_dtype);
  number("parameters", op.of_parameters);
  number("sums", op.sums_samples);
  number("part", op.part);
  number("weight", op.weight);
  number("elements", op.elements);
  number("rows", op.rows);
  number("flops", op.flops);
  number("bytes_read", op.bytes_read);
  number("bytes_written", op.bytes_written);
  number("fixed_read", op.fixed_read);
  number("fixed_written", op.fixed_written);
  const auto list = [&](const char* key, auto& out) {
    simdjson::dom::array sizes;
    if (o[key].get(sizes) != simdjson::SUCCESS) return;
    std::size_t i = 0;
    for (const simdjson::dom::element size : sizes) {
      std::int64_t value = 0;
      if (i < out.size() && size.get(value) == simdjson::SUCCESS) out[i++] = value;
    }
  };
  list("gemm", op.gemm);
  list("conv", op.conv);
  return op;
}

}  // namespace foretrace::trace
