// Matrix products: their law, times what measured ones of like shape take of it.

#include "hardware/cost_models.hpp"
#include "hardware/cost_product.hpp"

namespace foretrace::hardware {

ModelledTime gemm_model(const Work& w, const Gemm& g, const Device& d) {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || d.sm_count <= 0) return {};
  if (const ModelledTime told = measured_model(w, d); told.us > 0) return told;
  // No table holds the like: as far off as products on a GPU that nobody measured.
  const TransferWeights& laws = TransferWeights::shipped();
  return {best_product_us(w, laws, d), laws.of(fitted_kind(product_of(w, d)), d).spread_new};
}

}  // namespace foretrace::hardware
