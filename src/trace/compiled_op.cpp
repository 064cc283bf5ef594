#include "trace/compiled_op.hpp"

#include <fmt/format.h>
#include <simdjson.h>

namespace foretrace::trace {

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string compiled_op_json(const CompiledOp& op) {
  return fmt::format(
      R"(,"compiled":{{"op":"{}","layer":"{}","phase":"{}","family":"{}","dtype":"{}","out_dtype":"{}","parameters":{},"part":{},"flops":{:.0f},"bytes_read":{:.0f},"bytes_written":{:.0f},"fixed_read":{:.0f},"elements":{},"rows":{},"gemm":[{},{},{},{}]}})",
      escaped(op.operation), escaped(op.layer), op.phase, op.family, op.dtype, op.out_dtype, op.of_parameters, op.part,
      op.flops, op.bytes_read, op.bytes_written, op.fixed_read, op.elements, op.rows, op.gemm[0], op.gemm[1],
      op.gemm[2], op.gemm[3]);
}

std::optional<CompiledOp> compiled_op(const Trace& trace, ArgsId args) {
  const std::string_view tuple = trace.args.text(args);
  if (tuple.find("\"compiled\":{\"op\"") == std::string_view::npos) return std::nullopt;
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
  const auto integer = [&](const char* key, std::int64_t& out) { (void)o[key].get(out); };
  const auto real = [&](const char* key, double& out) { (void)o[key].get(out); };
  text("op", op.operation);
  text("layer", op.layer);
  text("phase", op.phase);
  text("family", op.family);
  text("dtype", op.dtype);
  text("out_dtype", op.out_dtype);
  (void)o["parameters"].get(op.of_parameters);
  integer("part", op.part);
  integer("elements", op.elements);
  integer("rows", op.rows);
  real("flops", op.flops);
  real("bytes_read", op.bytes_read);
  real("bytes_written", op.bytes_written);
  real("fixed_read", op.fixed_read);
  simdjson::dom::array sizes;
  if (o["gemm"].get(sizes) == simdjson::SUCCESS) {
    std::size_t i = 0;
    for (const simdjson::dom::element size : sizes) {
      if (i < op.gemm.size()) (void)size.get(op.gemm[i++]);
    }
  }
  return op;
}

}  // namespace foretrace::trace
