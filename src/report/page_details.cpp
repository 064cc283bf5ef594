#include "report/page_details.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foretrace::report {

namespace {

// An optimizer's operation takes hundreds of tensors: too many to read.
constexpr std::size_t kTensors = 12;

}  // namespace

std::uint64_t PageDetails::place(std::string text) {
  if (text.empty()) return 0;
  const auto [at, added] = places_.try_emplace(std::move(text), list_.size() + 1);
  if (added) list_.push_back(at->first);
  return at->second;
}

std::string PageDetails::shapes_text(const trace::OpInputs& inputs) const {
  if (!inputs.dims.valid()) return {};
  const std::vector<std::vector<std::int64_t>> shapes = trace::parse_shapes(trace_.strings[inputs.dims]);
  const std::vector<std::string> types =
      inputs.types.valid() ? trace::parse_strings(trace_.strings[inputs.types]) : std::vector<std::string>{};
  std::string out;
  std::size_t shown = 0, left = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].empty()) continue;  // a number, or nothing
    if (shown == kTensors) {
      ++left;
      continue;
    }
    // Of lists of tensors the types are those of the lists: there are fewer of them.
    const std::string type = types.size() == shapes.size() && !types[i].empty() ? types[i] + " " : "";
    out += fmt::format("{}{}[{}]", shown == 0 ? "" : ", ", type, fmt::join(shapes[i], ", "));
    ++shown;
  }
  if (left > 0) out += fmt::format(" and {} more", left);
  return out;
}

std::string PageDetails::launch_text(ArgsId args) const {
  std::string out;
  if (const trace::CollectiveInfo* c = trace_.args.collective(args)) {
    if (c->in_elements > 0) out = fmt::format("{} elements", c->in_elements);
    if (c->dtype.valid()) out += fmt::format("{}{}", out.empty() ? "" : " of ", trace_.strings[c->dtype]);
    if (c->group_size > 0) out += fmt::format("{}{} ranks", out.empty() ? "" : ", ", c->group_size);
  }
  const trace::KernelLaunch* k = trace_.args.launch(args);
  if (k == nullptr) return out;
  const auto three = [](const std::array<std::int64_t, 3>& a) { return fmt::format("{} × {} × {}", a[0], a[1], a[2]); };
  const bool known =
      k->grid != std::array<std::int64_t, 3>{1, 1, 1} || k->block != std::array<std::int64_t, 3>{1, 1, 1};
  if (known) out += fmt::format("{}grid {}, block {}", out.empty() ? "" : "; ", three(k->grid), three(k->block));
  if (known && k->registers_per_thread > 0) out += fmt::format(", {} registers", k->registers_per_thread);
  if (known && k->shared_memory_bytes > 0) out += fmt::format(", {} bytes shared", k->shared_memory_bytes);
  return out;
}

std::uint64_t PageDetails::shapes(EventId op) {
  const ArgsId args = trace_.events.args[op.index()];
  if (!args.valid() || args.index() >= shapes_.size()) return 0;
  std::uint64_t& known = shapes_[args.index()];
  if (known == kUnknown) {
    const trace::OpInputs* inputs = trace_.args.inputs(args);
    known = inputs != nullptr ? place(shapes_text(*inputs)) : 0;
  }
  return known;
}

std::uint64_t PageDetails::launch(EventId event) {
  // How much was copied differs from copy to copy and is no argument that repeats.
  if (const trace::CopyIds* copy = trace_.copy(event.index()); copy != nullptr && copy->bytes > 0) {
    return place(fmt::format("{} bytes", copy->bytes));
  }
  const ArgsId args = trace_.events.args[event.index()];
  if (!args.valid() || args.index() >= launches_.size()) return 0;
  std::uint64_t& known = launches_[args.index()];
  if (known == kUnknown) known = place(launch_text(args));
  return known;
}

}  // namespace foretrace::report
