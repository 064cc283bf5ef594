#include "whatif/sharding/pass_rows.hpp"

#include "whatif/sharding/products.hpp"

namespace foretrace::whatif {

PassRows::Rows PassRows::in_order(const std::vector<Rows>& pass, const std::vector<std::uint32_t>& units) {
  Rows out;
  for (const std::uint32_t u : units) out.insert(out.end(), pass[u].begin(), pass[u].end());
  std::stable_sort(out.begin(), out.end(), [](const Row* a, const Row* b) { return a->begin < b->begin; });
  return out;
}

std::vector<std::uint32_t> PassRows::tasks(const Rows& rows, bool last) const {
  if (rows.empty()) return {};
  const Row& row = last ? *rows.back() : *rows.front();
  const auto runs = static_cast<std::size_t>(times_run(model_, row));
  const std::size_t run = std::max<std::size_t>(1, row.tasks.size() / runs);
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i + run <= row.tasks.size(); i += run) out.push_back(row.tasks[last ? i + run - 1 : i]);
  return out;
}

std::int64_t PassRows::written(std::uint32_t unit) const {
  for (const Row* row : forward_[unit]) {
    const work::Work& w = model_.works[row->work];
    if (is_product(w)) return work::is_half(w.out_dtype) ? 2 : 4;
  }
  return 4;
}

}  // namespace foretrace::whatif
