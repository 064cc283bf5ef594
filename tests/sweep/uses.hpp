#pragma once
// Every what-if there is, in every form its description offers: what the sweep and the chain's fuzz target try.

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::sweep {

/// A value for a parameter that must be given. A what-if with another kind of parameter needs a line here.
inline std::string value_for(const whatif::Parameter& p) {
  if (p.name == "to") return "A100-SXM4-80GB";
  if (p.name == "select") return "'*'";
  return p.choices.empty() ? "2" : p.choices.front();
}

/// "amp:dtype=bf16": each what-if once with what it needs, and once more for each value a parameter may take.
inline std::vector<std::string> every_use() {
  std::vector<std::string> uses;
  for (const whatif::WhatIf& w : whatif::catalogue()) {
    // With what it needs, and this value of one parameter.
    const auto add = [&](const std::string& name, const std::string& value) {
      std::string given;
      for (const whatif::Parameter& p : w.parameters) {
        if (p.required || p.name == name)
          given += fmt::format("{}{}={}", given.empty() ? ":" : ",", p.name, p.name == name ? value : value_for(p));
      }
      uses.push_back(w.name + given);
    };
    add("", "");
    for (const whatif::Parameter& p : w.parameters) {
      for (const std::string& choice : p.choices) {
        if (choice != (p.required ? value_for(p) : p.default_value)) add(p.name, choice);
      }
    }
  }
  // Half the CPU or the network, a smaller batch, tasks that take no time: the other direction of the same changes.
  for (const char* more : {"batch:x=0.5", "cpu:x=0.5", "duration:select='*',x=0", "accumulate:n=3"})
    uses.emplace_back(more);
  return uses;
}

/// What others are stacked on: each adds, removes or moves tasks in its own way.
inline const std::vector<std::string>& first_uses() {
  static const std::vector<std::string> uses = {"amp",
                                                "compile",
                                                "checkpoint",
                                                "accumulate",
                                                "cuda-graph",
                                                "batch:x=2",
                                                "fused-optimizer",
                                                "channels-last",
                                                "offload",
                                                "no-sync",
                                                "ddp",
                                                "gpu:to=A100-SXM4-80GB",
                                                "fsdp",
                                                "flash-attention"};
  return uses;
}

inline whatif::Use parsed(const std::string& text) {
  Result<whatif::Use> use = whatif::parse_use(text);
  if (!use) std::abort();  // the list above no longer fits the catalogue
  return std::move(*use);
}

}  // namespace foretrace::sweep
