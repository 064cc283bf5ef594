#pragma once
// The operations of the stream that computes, one behind the other, with the sizes of the tensors they read. A size says whether an operation works
// on the tensor of a collective: the trace names no tensors.

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

/// Which products sum over the rows of the samples: gradients of weights, those of experts included.
class WeightGradients {
 public:
  explicit WeightGradients(const work::Works& works);
  [[nodiscard]] bool has(const work::Work& work) const;

 private:
  using Sizes = std::array<std::int64_t, 4>;  // batch, then the others in order
  static Sizes sizes_of(const work::Gemm& product);
  std::map<Sizes, std::int64_t> rows_;  // of the forward pass's batches of products
};

/// Neighbouring GPU tasks of one operation.
struct StreamUnit {
  std::uint32_t first = 0, last = 0;  ///< tasks
  bool collective = false;
  bool known = false;  ///< the trace shows what it reads
  std::vector<std::int64_t>
      reads;  ///< elements of each tensor of two or more dimensions, of a list of them all together
  const work::Work* work = nullptr;     ///< null: nothing describes it
  const work::Gemm* product = nullptr;  ///< null: it is none
  bool weight_gradient = false;         ///< a product that sums over rows

  [[nodiscard]] bool reads_size(std::int64_t elements) const;
  /// Elements of a product's factors and of its result; 0: it is none.
  [[nodiscard]] std::int64_t left() const { return product ? product->batch * product->m * product->k : 0; }
  [[nodiscard]] std::int64_t right() const { return product ? product->batch * product->k * product->n : 0; }
  [[nodiscard]] std::int64_t result() const { return product ? product->batch * product->m * product->n : 0; }
  /// Rows of its result depend on the same rows of what it reads.
  [[nodiscard]] bool by_rows() const;
  /// Surely neither reads nor writes a tensor of so many elements, or a part of one.
  [[nodiscard]] bool without(std::int64_t elements) const;
};

class StreamUnits {
 public:
  /// Of the stream that most GPU tasks run on. The model must outlive it.
  explicit StreamUnits(const Model& model);

  [[nodiscard]] std::uint32_t lane() const { return lane_; }
  [[nodiscard]] std::size_t size() const { return units_.size(); }
  [[nodiscard]] const StreamUnit& operator[](std::size_t i) const { return units_[i]; }
  /// The unit a task of the stream belongs to.
  [[nodiscard]] std::size_t of(std::uint32_t task) const;

 private:
  std::uint32_t lane_ = 0;
  std::vector<StreamUnit> units_;
};

}  // namespace foretrace::whatif
