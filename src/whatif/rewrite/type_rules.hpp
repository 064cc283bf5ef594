#pragma once
// What rules about element types share: autocast's (autocast.cpp) and those of a program whose parameters are half
// (half_program.cpp). Both follow the data flow in program order, and track for each tensor whether it is half and whether the loss
// depends on it.

#include <vector>

#include "whatif/rewrite/autocast.hpp"

namespace foretrace::whatif {

class TypeRules {
 public:
  explicit TypeRules(const Dataflow& flow) : flow_(flow) {
    out_.half.assign(flow.values.size(), 0);
    grad_.assign(flow.values.size(), 0);
  }
  virtual ~TypeRules() = default;
  TypeRules(const TypeRules&) = delete;
  TypeRules& operator=(const TypeRules&) = delete;

  Autocast run();

 protected:
  /// Fills `a` for unit `index`; returns whether its result is half.
  virtual bool one(std::size_t index, AutocastUnit& a) = 0;

  [[nodiscard]] bool half(const Input& in) const { return out_.half[in.value] != 0; }
  /// Does the loss depend on it? What was there before the step is a parameter where weights are used, else a constant.
  [[nodiscard]] bool needs(const Input& in, const Unit& u) const;
  /// Operands of two types give FP32, operands of one type that type.
  bool follow_inputs(const Unit& u, AutocastUnit& a) const;

  const Dataflow& flow_;
  Autocast out_;

 private:
  [[nodiscard]] bool adds_into_fresh(const Unit& u) const;

  std::vector<char> grad_;  // by value
};

/// "linear" of "aten::linear".
std::string_view plain_name(std::string_view op);

}  // namespace foretrace::whatif
