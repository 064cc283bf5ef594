#include "whatif/dataflow/sequence_shapes.hpp"

#include <algorithm>
#include <cmath>

#include "base/saturate.hpp"
#include "whatif/dataflow/dataflow.hpp"
#include "whatif/model/step_facts.hpp"

namespace foretrace::whatif {

using work::Argument;
using work::OpView;
using work::Shape;

namespace {

std::int64_t times(std::int64_t length, double x) {
  return std::max<std::int64_t>(1, saturated(std::round(static_cast<double>(length) * x)));
}

bool floating(const Argument& a) {
  return a.type.find("loat") != std::string::npos || a.type == "c10::Half" || a.type == "double";
}

}  // namespace

std::set<std::int64_t> sequence_sizes(const work::Works& works) {
  std::set<std::int64_t> out;
  for (const work::Work& w : works.rows) {
    if (const auto* a = std::get_if<work::Attention>(&w.kind)) {
      out.insert(a->queries);
      out.insert(a->keys);
    } else if (const auto* r = std::get_if<work::Recurrent>(&w.kind)) {
      out.insert(r->steps);
    } else if (const auto* rows = std::get_if<work::Rows>(&w.kind); rows != nullptr && !w.backward) {
      // The scores of an attention that is computed from its parts.
      if (w.family == work::Family::kSoftmax) out.insert(rows->columns);
    }
  }
  return out;
}

std::vector<SequenceShapes::Lookup> SequenceShapes::read_operations(const Model& m) {
  std::vector<Lookup> lookups;
  const std::shared_ptr<const Dataflow> flow = shared_flow(m);
  for (const Unit& u : flow->units) {
    const OpView op(*m.trace, m.trace->events.args[u.event]);
    const auto weight = [&](std::size_t i) {
      if (!op.tensor(i, 1)) return;
      const Shape& s = op[i].shape();
      features_.insert(s.begin(), s.end());
      if (s.size() == 2) weights_.insert({s[0], s[1]}), weights_.insert({s[1], s[0]});
    };
    if (u.name == "aten::embedding" && op.tensor(0, 2) && op.tensor(1, 1)) {
      lookups.push_back({op[0].shape(), op[1].shape()});
      weight(0);
    } else if (u.name == "aten::linear") {
      weight(1);
    } else if (u.name == "aten::addmm") {
      weight(2);
    } else if (u.name.find("norm") != std::string_view::npos) {
      for (std::size_t i = 1; i < op.size(); ++i) weight(i);
    } else if (u.name.starts_with("aten::lstm") || u.name.starts_with("aten::gru") || u.name.starts_with("aten::rnn")) {
      for (const Argument& a : op.arguments()) {
        if (!a.list()) continue;
        for (const Shape& s : a.shapes) features_.insert(s.begin(), s.end());
      }
    }
  }
  return lookups;
}

Result<SequenceShapes> SequenceShapes::find(const Model& m) {
  SequenceShapes out;
  const std::vector<Lookup> lookups = out.read_operations(m);
  if (lookups.empty() && step_facts(m)->compiled) {
    return fail(
        ErrorCode::kDeclined,
        "no sequence dimension is found: a compiled step does not show the shapes of its kernels (ask this of the "
        "step before it is compiled)");
  }
  if (lookups.empty()) {
    return fail(ErrorCode::kDeclined,
                "no sequence dimension is found: the step looks no tokens up in an embedding (an image's or a "
                "signal's length is another change)");
  }
  const std::set<std::int64_t> read = sequence_sizes(m.works);
  for (const Lookup& l : lookups) {
    if (l.indices.size() != 2) continue;
    const auto [first, second] = std::pair(l.indices[0], l.indices[1]);
    if (second > 1 && read.contains(second)) {
      out.lengths_.insert(second);
      if (first != second) out.batches_.insert(first);
    } else if (first > 1 && read.contains(first)) {
      out.lengths_.insert(first);
      out.batches_.insert(second);
    }
  }
  if (out.lengths_.empty()) {
    return fail(ErrorCode::kDeclined,
                "no sequence dimension is found: neither attention nor a recurrent layer runs over the tokens the "
                "step looks up");
  }
  // Positions of a learned table are lookups up once for the whole batch.
  for (const Lookup& l : lookups) {
    const std::int64_t used = l.indices.empty() ? 0 : l.indices.back();
    const bool once = l.indices.size() == 1 || (l.indices.size() == 2 && l.indices[0] == 1);
    if (once && l.table[0] >= used && out.lengths_.contains(used))
      out.tables_.push_back({l.table[0], l.table[1], used});
  }
  out.batches_.erase(1);
  return out;
}

SequenceShapes SequenceShapes::of_later_stage(const Model& m, const SequenceShapes& first) {
  SequenceShapes out;
  out.read_operations(m);
  out.lengths_ = first.lengths_;
  out.batches_ = first.batches_;
  return out;
}

std::int64_t SequenceShapes::grown(std::int64_t size, double x) const {
  // One less and one more: labels shifted by a position, a position put in front.
  for (const std::int64_t off : {0, -1, 1}) {
    for (const std::int64_t length : lengths_) {
      if (length <= 2 && off != 0) continue;
      if (size == length + off) return times(length, x) + off;
      for (const std::int64_t batch : batches_) {
        if (batch > 1 && size == saturated_product(batch, length + off))
          return saturated_product(batch, times(length, x) + off);
      }
    }
  }
  // Positions in several copies: routed to several experts.
  for (const std::int64_t length : lengths_) {
    for (const std::int64_t batch : batches_) {
      const std::int64_t all = saturated_product(batch, length);
      if (batch > 1 && all > 0 && size > all && size % all == 0 && size / all <= 8 && !features_.contains(size))
        return times(size, x);
    }
  }
  return size;
}

bool SequenceShapes::positions_at(const Shape& s, std::size_t dim, bool indices) const {
  if (!positions(s[dim])) return false;
  if (indices || !features_.contains(s[dim])) return true;
  const bool last = dim + 1 == s.size();
  if (!last) return s.size() != 2 || !weights_.contains({s[0], s[1]});
  // The last dimension is what a layer is wide, but of scores (heads, queries, keys).
  if (s.size() >= 4) return true;
  return s.size() == 3 && positions(s[1]) && !batches_.contains(s[0]) && s[0] != 1;
}

bool SequenceShapes::per_position(std::int64_t rows) const {
  return positions(rows) || (rows >= *lengths_.begin() && !batches_.contains(rows));
}

Shape SequenceShapes::longer(const Shape& shape, bool indices, double x) const {
  Shape out = shape;
  bool any = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!positions_at(shape, d, indices)) continue;
    out[d] = grown(shape[d], x);
    any = true;
  }
  // As many rows of features as the data wants: positions that were chosen.
  if (!any && shape.size() == 2 && features_.contains(shape[1]) && !features_.contains(shape[0]) &&
      per_position(shape[0]))
    out[0] = times(shape[0], x);
  return out;
}

OpView SequenceShapes::longer(const OpView& op, double x) const {
  std::vector<Argument> arguments = op.arguments();
  for (Argument& a : arguments) {
    if (!a.tensor() && !a.list()) continue;
    for (std::size_t i = 0; i < a.shapes.size(); ++i) {
      const Shape was = a.shapes[i];
      a.shapes[i] = longer(was, a.tensor() && !floating(a), x);
      if (i >= a.strides.size() || a.strides[i].size() != was.size()) continue;
      // What is inside a dimension pushes its elements apart.
      const Shape strides = a.strides[i];
      for (std::size_t d = 0; d < was.size(); ++d) {
        for (std::size_t inner = 0; inner < was.size(); ++inner) {
          if (inner == d || strides[inner] >= strides[d] || was[inner] == a.shapes[i][inner] || was[inner] == 0)
            continue;
          a.strides[i][d] = saturated(static_cast<double>(a.strides[i][d]) * static_cast<double>(a.shapes[i][inner]) /
                                      static_cast<double>(was[inner]));
        }
      }
    }
  }
  return OpView(std::move(arguments));
}

}  // namespace foretrace::whatif
