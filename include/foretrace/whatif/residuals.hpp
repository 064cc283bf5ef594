#pragma once
// How far predictions were from measured steps, by family of errors and model: the data behind bands. Errors inside a
// family move together, so one model counts once however many rows it has.
//
//   Residuals::built_in().sigma("gemm");     // of log time
//
// The built-in table is written by tools/fit_bands.py from measured steps; the same tool makes one from your own.

#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"

namespace foretrace::whatif {

class Residuals {
 public:
  /// One line: family, model, log(measured / predicted).
  struct Row {
    std::string family;
    std::string model;
    double residual = 0;
  };

  /// Lines "family,model,residual"; '#' begins a comment.
  static Result<Residuals> parse(std::string_view csv, std::string_view file);
  static const Residuals& built_in();

  /// The standard deviation whose 10th and 90th percentile hold four of five of a family's residuals, each model one vote however
  /// many rows it has; times what Student's t adds where few models were measured. A family of kernels that nobody measured gets what all
  /// kernels together have; where that is nothing either, what the built-in table's families have, the root of their mean square.
  [[nodiscard]] double sigma(std::string_view family) const;
  /// Models with rows of this family.
  [[nodiscard]] std::size_t models(std::string_view family) const;
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

 private:
  static double unmeasured();
  std::vector<Row> rows_;
};

/// Families that are not kinds of kernels.
inline constexpr std::string_view kHostFamily = "host";      ///< CPU time between runs and after a change
inline constexpr std::string_view kScaledFamily = "scaled";  ///< measured kernels times a factor
/// What two changes do to each other beyond what each does to kernels and host; of the whole step, for every change after the
/// first.
inline constexpr std::string_view kCombinedFamily = "combined";

}  // namespace foretrace::whatif
