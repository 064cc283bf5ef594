#pragma once
// Phase and layer of the work inside a CPU event, from the event's name.

#include <cstdint>
#include <string>
#include <string_view>

#include "foretrace/trace/trace.hpp"

namespace foretrace::graph {

enum Mark : std::uint8_t {
  kPlain = 1,
  kLayerRange = 2,  // layer:… or nn.Module: …
  kUserRange = 4,   // another user range whose name can be a module's: names a layer when nothing better does
  kOptimizer = 8,
  kAutogradNode = 16,
  kCommunication = 32,
  kDataLoader = 128,
  kOpMark = 64,
};

/// Marks of an event, never 0.
std::uint8_t classify_range(trace::EventKind kind, std::string_view name);

/// Whether the program itself put the range there, by whatever name.
bool is_user_range(trace::EventKind kind, std::string_view name);

/// Whether the name of a user range can be that of a module: words joined by dots that do not end in a part of the step.
///   "encoder.layer.3" -> true; "## forward ##", "model.forward", "loss" -> false
bool names_a_module(std::string_view name);

/// The module around both of two leaves that run one after the other; empty when only the model holds both.
std::string module_between(std::string_view before, std::string_view after);

}  // namespace foretrace::graph
