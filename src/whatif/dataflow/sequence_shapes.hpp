#pragma once
// Which dimensions of a step's tensors are positions of a sequence. A trace names no dimension: the length is that of the
// token indices an embedding looks up, where attention or a recurrent layer runs over as many positions; a dimension is one
// of positions when it has that size, or that times the batch (rows of a product). Where a layer happens to be as wide as the
// sequence is long, the dimension's place decides.
//
//   FORETRACE_TRY(const SequenceShapes shapes, SequenceShapes::find(model));
//   shapes.longer({8, 512, 768}, false, 2);     // {8, 1024, 768}
//   shapes.longer({96, 512, 512}, false, 2);    // scores: {96, 1024, 1024}

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/model.hpp"
#include "work/op_view.hpp"

namespace foretrace::whatif {

/// Positions that attention or recurrent layers of a step run over.
std::set<std::int64_t> sequence_sizes(const work::Works& works);

class SequenceShapes {
 public:
  /// Declined, with the reason, where the step has no sequence.
  static Result<SequenceShapes> find(const Model& model);
  /// Of a stage of a pipeline that looks up no tokens: lengths and batches are those of the stage that does.
  static SequenceShapes of_later_stage(const Model& model, const SequenceShapes& first);

  /// A tensor's shape when sequences are x times as long. `indices`: it holds integers, of which none is a feature.
  [[nodiscard]] work::Shape longer(const work::Shape& shape, bool indices, double x) const;
  /// All tensors of an operation.
  [[nodiscard]] work::OpView longer(const work::OpView& op, double x) const;
  /// Is this many rows of a product one for every position, rather than one for every sample?
  [[nodiscard]] bool per_position(std::int64_t rows) const;

  /// A learned table of positions is only so long.
  struct Table {
    std::int64_t rows = 0, columns = 0, used = 0;
  };
  [[nodiscard]] const std::vector<Table>& position_tables() const { return tables_; }

 private:
  struct Lookup {
    work::Shape table, indices;
  };
  /// Notes the sizes of parameters, and returns what embeddings look up.
  std::vector<Lookup> read_operations(const Model& model);
  [[nodiscard]] std::int64_t grown(std::int64_t size, double x) const;
  [[nodiscard]] bool positions_at(const work::Shape& shape, std::size_t dim, bool indices) const;
  [[nodiscard]] bool positions(std::int64_t size) const { return grown(size, 2) != size; }

  std::set<std::int64_t> lengths_;   ///< of sequences: an encoder's and a decoder's may differ
  std::set<std::int64_t> batches_;   ///< sequences in a step
  std::set<std::int64_t> features_;  ///< sizes of parameters
  std::set<std::pair<std::int64_t, std::int64_t>> weights_;
  std::vector<Table> tables_;
};

}  // namespace foretrace::whatif
