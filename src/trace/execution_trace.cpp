#include "trace/execution_trace.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/byte_source.hpp"
#include "trace/execution_repeat.hpp"

namespace foretrace::trace {
namespace {

namespace dom = simdjson::dom;

bool floating(std::string_view type) {
  constexpr std::array<std::string_view, 4> kTypes = {"Tensor(float)", "Tensor(c10::Half)", "Tensor(c10::BFloat16)",
                                                      "Tensor(double)"};
  return std::any_of(kTypes.begin(), kTypes.end(),
                     [&](std::string_view t) { return type.find(t) != std::string_view::npos; });
}

/// [tensor, storage, offset, elements, bytes of an element, device]
bool tensor_in(dom::element value, TensorUse& use) {
  dom::array parts;
  std::string_view device;
  if (value.get(parts) != simdjson::SUCCESS || parts.size() != 6) return false;
  return parts.at(0).get(use.tensor) == simdjson::SUCCESS && parts.at(1).get(use.storage) == simdjson::SUCCESS &&
         parts.at(5).get(device) == simdjson::SUCCESS;
}

std::vector<std::int64_t> sizes_in(dom::element value) {
  std::vector<std::int64_t> out;
  dom::array list;
  if (value.get(list) != simdjson::SUCCESS) return out;
  for (const dom::element size : list) {
    std::int64_t n = 0;
    if (size.get(n) != simdjson::SUCCESS) return {};
    out.push_back(n);
  }
  return out;
}

/// The tensors among values, in order, with their shapes; lists of tensors one by one.
std::vector<TensorUse> tensors_in(dom::array values, dom::array shapes, dom::array types, bool only_floating) {
  std::vector<TensorUse> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::string_view type;
    if (types.at(i).get(type) != simdjson::SUCCESS) type = {};
    if (only_floating && !floating(type)) continue;
    const dom::element value = values.at(i).value_unsafe();
    TensorUse use;
    use.argument = i;
    dom::element shape;
    const bool shaped = shapes.at(i).get(shape) == simdjson::SUCCESS;
    if (tensor_in(value, use)) {
      if (shaped) use.shape = sizes_in(shape);
      out.push_back(use);
      continue;
    }
    dom::array list;
    if (value.get(list) != simdjson::SUCCESS) continue;
    dom::array inner;
    const bool each = shaped && shape.get(inner) == simdjson::SUCCESS;
    for (std::size_t k = 0; k < list.size(); ++k) {
      use.shape.clear();
      if (!tensor_in(list.at(k).value_unsafe(), use)) continue;
      dom::element one;
      if (each && inner.at(k).get(one) == simdjson::SUCCESS) use.shape = sizes_in(one);
      out.push_back(use);
    }
  }
  return out;
}

struct Lists {
  dom::array values, shapes, types;
};

// {"values": …, "shapes": …, "types": …}; before schema 1.0.2 three keys of the node itself.
bool lists_of(dom::object node, const char* key, const char* shapes, const char* types, Lists& out) {
  dom::element found;
  if (node[key].get(found) != simdjson::SUCCESS) return false;
  dom::object nested;
  if (found.get(nested) == simdjson::SUCCESS) {
    return nested["values"].get(out.values) == simdjson::SUCCESS &&
           nested["shapes"].get(out.shapes) == simdjson::SUCCESS && nested["types"].get(out.types) == simdjson::SUCCESS;
  }
  return found.get(out.values) == simdjson::SUCCESS && node[shapes].get(out.shapes) == simdjson::SUCCESS &&
         node[types].get(out.types) == simdjson::SUCCESS;
}

std::int64_t record_function_of(dom::object node) {
  std::int64_t id = kAbsent;
  if (node["rf_id"].get(id) == simdjson::SUCCESS) return id;
  dom::array attributes;
  if (node["attrs"].get(attributes) != simdjson::SUCCESS) return kAbsent;
  for (const dom::element attribute : attributes) {
    std::string_view name;
    if (attribute["name"].get(name) == simdjson::SUCCESS && name == "rf_id" &&
        attribute["value"].get(id) == simdjson::SUCCESS) {
      return id;
    }
  }
  return kAbsent;
}

/// A row: event, inputs (argument, tensor, storage), outputs (tensor, storage, sizes); each list behind its length.
void append_row(std::string& out, std::uint32_t event, const std::vector<TensorUse>& inputs,
                const std::vector<TensorUse>& outputs) {
  out += fmt::format("{}{},{}", out.size() > 1 ? "," : "", event, inputs.size());
  for (const TensorUse& in : inputs) out += fmt::format(",{},{},{}", in.argument, in.tensor, in.storage);
  out += fmt::format(",{}", outputs.size());
  for (const TensorUse& o : outputs) {
    out += fmt::format(",{},{},{}", o.tensor, o.storage, o.shape.size());
    for (const std::int64_t size : o.shape) out += fmt::format(",{}", size);
  }
}

// "out.json.gz" -> "out.et.json.gz", "out.et.json".
std::string execution_trace_of(const std::string& path) {
  for (const std::string_view suffix : {".pt.trace.json.gz", ".pt.trace.json", ".json.gz", ".json"}) {
    if (!path.ends_with(suffix)) continue;
    const std::string stem = path.substr(0, path.size() - suffix.size());
    for (const char* other : {".et.json.gz", ".et.json"}) {
      std::error_code ignored;
      if (std::filesystem::is_regular_file(stem + other, ignored)) return stem + other;
    }
    break;
  }
  return {};
}

}  // namespace

std::int64_t add_tensors(Trace& trace, std::string_view execution_trace) {
  std::unordered_map<std::int64_t, std::uint32_t> events;
  for (std::uint32_t e = 0; e < trace.size(); ++e) {
    const OpIds* ids = trace.kind(e) == EventKind::kOp ? trace.op(e) : nullptr;
    if (ids != nullptr && ids->record_function_id != kAbsent) events.emplace(ids->record_function_id, e);
  }
  const simdjson::padded_string text(execution_trace);
  simdjson::ondemand::parser parser;
  simdjson::ondemand::document document;
  simdjson::ondemand::array nodes;
  if (parser.iterate(text).get(document) != simdjson::SUCCESS ||
      document["nodes"].get_array().get(nodes) != simdjson::SUCCESS) {
    return -1;
  }
  dom::parser one;
  ObservedOperations operations;
  std::int64_t known = 0;
  for (auto item : nodes) {
    simdjson::ondemand::object fields;
    std::string_view raw;
    if (item.get_object().get(fields) != simdjson::SUCCESS || fields.raw_json().get(raw) != simdjson::SUCCESS)
      return -1;
    dom::object node;
    if (one.parse(raw.data(), raw.size()).get(node) != simdjson::SUCCESS) return -1;
    const auto event = events.find(record_function_of(node));
    std::string_view name;
    if (event == events.end() || node["name"].get(name) != simdjson::SUCCESS || name != trace.name(event->second))
      continue;
    Lists in, out;
    if (!lists_of(node, "inputs", "input_shapes", "input_types", in) ||
        !lists_of(node, "outputs", "output_shapes", "output_types", out)) {
      continue;
    }
    operations[event->second] = {tensors_in(in.values, in.shapes, in.types, false),
                                 tensors_in(out.values, out.shapes, out.types, true)};
    ++known;
  }
  repeat_over_steps(trace, operations);
  std::string rows = "[";
  for (const auto& [event, op] : operations) append_row(rows, event, op.inputs, op.outputs);
  rows += ']';
  if (known > 0) trace.metadata.emplace_back(kTensorsKey, std::move(rows));
  return known;
}

void attach_execution_trace(Trace& trace) {
  const std::string path = execution_trace_of(trace.path);
  if (path.empty()) return;
  const Result<std::string> text = read_file(path);
  const std::int64_t known = text ? add_tensors(trace, *text) : -1;
  if (known < 0) {
    trace.diagnostics.add("execution_trace", Severity::kInfo, "the execution trace next to the trace cannot be read",
                          path);
  } else if (known == 0) {
    trace.diagnostics.add("execution_trace", Severity::kInfo,
                          "the execution trace next to the trace knows none of its operations: it is of another run",
                          path);
  }
}

TensorIdentities::TensorIdentities(const Trace& trace) {
  const std::string_view raw = trace.metadata_value(kTensorsKey);
  if (raw.empty()) return;
  dom::parser parser;
  dom::array numbers;
  if (parser.parse(raw.data(), raw.size()).get(numbers) != simdjson::SUCCESS) return;
  std::vector<std::int64_t> row;
  for (const dom::element n : numbers) {
    std::int64_t value = 0;
    if (n.get(value) != simdjson::SUCCESS) return;
    row.push_back(value);
  }
  // Anyone may have written the file: nothing is taken for granted.
  std::size_t at = 0;
  bool good = true;
  const auto next = [&]() -> std::int64_t {
    good = good && at < row.size();
    return good ? row[at++] : 0;
  };
  const auto length = [&]() -> std::size_t {
    const std::int64_t n = next();
    good = good && n >= 0 && static_cast<std::size_t>(n) <= row.size() - at;
    return good ? static_cast<std::size_t>(n) : 0;
  };
  while (good && at < row.size()) {
    const std::int64_t event = next();
    Operation op;
    op.inputs.resize(length());
    for (TensorUse& in : op.inputs) {
      in.argument = static_cast<std::size_t>(std::max<std::int64_t>(0, next()));
      in.tensor = next();
      in.storage = next();
    }
    op.outputs.resize(length());
    for (TensorUse& out : op.outputs) {
      out.tensor = next();
      out.storage = next();
      out.shape.resize(length());
      for (std::int64_t& size : out.shape) size = next();
    }
    if (!good || event < 0 || static_cast<std::size_t>(event) >= trace.size()) break;
    operations_.insert_or_assign(static_cast<std::uint32_t>(event), std::move(op));
  }
}

}  // namespace foretrace::trace
