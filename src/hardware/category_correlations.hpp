#pragma once
// How much of a residual in one category of measured work shows in another: kernels/<device>.correlations.csv, written by
// tools/fit_kernels.py. Categories are words; the correlation of two is the product over the words in which they differ.
//
//   all.of("conv fwd dense fp16 nhwc", "conv fwd dense fp32 nchw")   // (fp16, fp32) x (nchw, nhwc) of "conv fwd dense"

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace foretrace::hardware {

class CategoryCorrelations {
 public:
  CategoryCorrelations() = default;
  /// Rows of form, word, other and correlation; all words of a category that no row names as word or other are its form.
  explicit CategoryCorrelations(std::string_view csv);
  /// 1 for the same category; 0 for words nobody measured together.
  [[nodiscard]] double of(std::string_view category, std::string_view other) const;

 private:
  std::map<std::string, double, std::less<>> by_words_;  // "conv fwd dense,fp16,fp32"
  std::set<std::string, std::less<>> varying_;           // words that rows compare: "fp16", "nhwc"
};

}  // namespace foretrace::hardware
