// Offsets and drift of the ranks' clocks. Unknowns are corrections in µs (and µs per second) on top of a first guess, the
// median distance of matched ends, so that doubles are precise enough for any clock values.

#include "ranks/clocks.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/statistics.hpp"
#include "foretrace/ranks/job.hpp"
#include "ranks/collectives.hpp"
#include "ranks/first_guess.hpp"
#include "ranks/order.hpp"
#include "ranks/quadratic.hpp"

namespace foretrace::ranks {

Ns Clock::aligned(Ns t) const {
  const auto since = static_cast<double>(t - reference);
  return t - offset - static_cast<Ns>(std::llround(since * drift_ppm * 1e-6));
}

namespace {

// Resolution of the times: older profilers write whole µs.
constexpr double kResolutionUs = 1.0;
// Clocks of processes of one host agree to about this, twice the resolution (the profiler's own conversion to wall time). Nobody measured it.
constexpr double kHostSpreadUs = 2.0;
// And run equally fast: they are one clock, so that this is a guard against a singular system, 1 us in 100 s.
constexpr double kHostDriftPpm = 0.01;

class Solver {
 public:
  Solver(const Job& job, const Matching& m) : job_(job), m_(m), n_(job.ranks.size()) {
    // A collective of n ranks adds n^2 products. Beyond some seconds of them every k-th of a family says as much, and the search ends in
    // time; causality is checked on all.
    constexpr double kMostProducts = 2e8;
    double products = 0;
    for (const Collective& c : m.collectives) products += 2.0 * c.count * c.count;
    stride_ = static_cast<std::size_t>(1 + products / kMostProducts);
  }

  Clocks run(const ClockOptions& options) {
    FirstGuess first = first_guess(n_, m_);
    guess_ = std::move(first.guess);
    anchor_ = std::move(first.anchor);
    known_ = std::move(first.known);
    x_.assign(2 * n_, 0.0);
    result_.clocks.resize(n_);
    result_.violations_before = violated(true).size();
    result_.raw_end_spread = spread(true);
    // A host of one rank each; those whose files name the same one are tied once that is seen to hold.
    for (std::uint32_t r = 0; r < n_; ++r) result_.clocks[r].host = r;
    if (options.align && !m_.collectives.empty()) {
      solve(false);
      if (options.drift && long_enough()) solve_drift();
      tie_hosts();
    } else {
      guess_.assign(n_, 0);
    }
    for (std::uint32_t r = 0; r < n_; ++r) {
      Clock& c = result_.clocks[r];
      c.reference = anchor_[r];
      c.offset = -(guess_[r] + static_cast<Ns>(std::llround(x_[r] * 1e3)));
      c.drift_ppm = -x_[n_ + r];
      c.known = known_[r] != 0 || r == 0;
    }
    finish();
    return std::move(result_);
  }

 private:
  // Times on the first rank's clock, in µs after its anchor.
  [[nodiscard]] double us(const Member& m, Ns t) const {
    const double since = static_cast<double>(t - anchor_[m.rank]) * 1e-3;
    return since + offset_of(m.rank) + x_[m.rank] + x_[n_ + m.rank] * since * 1e-6;
  }
  // Where a rank's anchor is after the first rank's.
  [[nodiscard]] double offset_of(std::uint32_t r) const {
    return static_cast<double>(anchor_[r] + guess_[r] - anchor_[0]) * 1e-3;
  }
  [[nodiscard]] double start(const Member& m) const { return us(m, m.start); }
  [[nodiscard]] double end(const Member& m) const { return us(m, m.end); }
  [[nodiscard]] const Member* last_arrival(const Collective& c) const {
    const Member* last = nullptr;
    for (const Member& m : m_.of(c)) {
      if (last == nullptr || start(m) > start(*last)) last = &m;
    }
    return last;
  }

  // Adds `factor` times the derivative of a time of m to a row.
  void derive(SparseRow& row, const Member& m, Ns t, double factor) const {
    if (unknown_[m.rank] != kNone) row.entries.push_back({unknown_[m.rank], factor});
    if (unknown_drift_[m.rank] != kNone) {
      row.entries.push_back({unknown_drift_[m.rank], factor * static_cast<double>(t - anchor_[m.rank]) * 1e-9});
    }
  }

  // Variances per family: within a collective (ends on different ranks), and between instances (lengths).
  void weigh() {
    within_.assign(m_.families, {});
    between_.assign(m_.families, {});
    length_.assign(m_.families, {});
    for (const Collective& c : m_.collectives) {
      if (!c.ends_together) continue;
      const double mean = mean_end(c);
      for (const Member& m : m_.of(c)) within_[c.family].squares += (end(m) - mean) * (end(m) - mean);
      within_[c.family].count += c.count - 1;
      length_[c.family].push_back(mean - start(*last_arrival(c)));
    }
    Variance pooled_within, pooled_between;
    for (std::uint32_t f = 0; f < m_.families; ++f) {
      const std::vector<double>& lengths = length_[f];
      const double mean = mean_of(lengths);
      for (const double x : lengths) between_[f].squares += (x - mean) * (x - mean);
      if (!lengths.empty()) between_[f].count += static_cast<double>(lengths.size() - 1);
      pooled_within.add(within_[f]);
      pooled_between.add(between_[f]);
    }
    // A family seen once or twice agrees by chance: each gets two more samples of the job's typical spread.
    constexpr double kPrior = 2;
    for (std::uint32_t f = 0; f < m_.families; ++f) {
      within_[f].mix(pooled_within.value(), kPrior);
      between_[f].mix(pooled_between.value(), kPrior);
    }
  }

  static double mean_of(const std::vector<double>& values) {
    double mean = 0;
    for (const double x : values) mean += x / static_cast<double>(values.size());
    return mean;
  }

  [[nodiscard]] double mean_end(const Collective& c) const {
    double sum = 0;
    for (const Member& m : m_.of(c)) sum += end(m);
    return sum / c.count;
  }

  Quadratic assemble() {
    unknown_.assign(n_, kNone);
    unknown_drift_.assign(n_, kNone);
    std::uint32_t next = 0;
    for (std::uint32_t r = 1; r < n_; ++r) {
      if (known_[r] != 0) unknown_[r] = next++;
    }
    for (std::uint32_t r = 1; r < n_; ++r) {
      if (known_[r] != 0 && with_drift_) unknown_drift_[r] = next++;
    }
    Quadratic q(next);
    std::vector<std::size_t> seen(m_.families, 0);
    for (const Collective& c : m_.collectives) {
      if (!c.ends_together || seen[c.family]++ % stride_ != 0) continue;
      const double mean = mean_end(c);
      const double weight = 1 / within_[c.family].value();
      SparseRow centre;
      for (const Member& m : m_.of(c)) derive(centre, m, m.end, 1.0 / c.count);
      // Sum of (y_j - mean)^2 = sum of y_j^2 less n mean^2; values are taken around the mean, so that it is 0.
      for (const Member& m : m_.of(c)) {
        SparseRow row;
        derive(row, m, m.end, 1);
        q.add_square(row, end(m) - mean, weight);
      }
      q.add_square(centre, 0, -weight * c.count);
      add_length(q, c, centre, mean);
    }
    add_hosts(q);
    return q;
  }

  // The transfer's length against the family's mean, which is taken from the present solution.
  void add_length(Quadratic& q, const Collective& c, const SparseRow& centre, double mean) const {
    const std::vector<double>& lengths = length_[c.family];
    if (lengths.size() < 2) return;
    const double typical = mean_of(lengths);
    const Member* last = last_arrival(c);
    SparseRow row = centre;
    derive(row, *last, last->start, -1);
    q.add_square(row, mean - start(*last) - typical, 1 / between_[c.family].value());
  }

  void add_hosts(Quadratic& q) const {
    for (std::uint32_t r = 0; r < n_; ++r) {
      const std::uint32_t first = result_.clocks[r].host;
      if (first == r || known_[r] == 0 || known_[first] == 0) continue;
      SparseRow row;
      if (unknown_[r] != kNone) row.entries.push_back({unknown_[r], 1});
      if (unknown_[first] != kNone) row.entries.push_back({unknown_[first], -1});
      const double apart = (static_cast<double>(guess_[r] - guess_[first])) * 1e-3 + x_[r] - x_[first];
      q.add_square(row, apart, 1 / (kHostSpreadUs * kHostSpreadUs));
      if (!with_drift_) continue;
      SparseRow drift;
      if (unknown_drift_[r] != kNone) drift.entries.push_back({unknown_drift_[r], 1});
      if (unknown_drift_[first] != kNone) drift.entries.push_back({unknown_drift_[first], -1});
      q.add_square(drift, x_[n_ + r] - x_[n_ + first], 1 / (kHostDriftPpm * kHostDriftPpm));
    }
  }

  void apply(const std::vector<double>& z) {
    for (std::uint32_t r = 0; r < n_; ++r) {
      if (unknown_[r] != kNone) x_[r] += z[unknown_[r]];
      if (unknown_drift_[r] != kNone) x_[n_ + r] += z[unknown_drift_[r]];
    }
  }

  // Weights depend on the solution and vice versa, so the two alternate until they converge.
  void solve(bool drift) {
    with_drift_ = drift;
    constexpr int kMostRounds = 20;
    for (int round = 0; round < kMostRounds; ++round) {
      weigh();
      Quadratic q = assemble();
      if (q.size() == 0) return;
      q.factor();
      std::vector<double> z = q.minimum();
      const double moved = hold(q, z);
      apply(z);
      for (std::uint32_t r = 0; r < n_; ++r) {
        if (unknown_[r] == kNone) continue;
        result_.clocks[r].uncertainty = static_cast<Ns>(std::llround(std::sqrt(q.variance(unknown_[r])) * 1e3));
        if (unknown_drift_[r] != kNone) drift_error_[r] = std::sqrt(q.variance(unknown_drift_[r]));
      }
      if (moved < 0.01 && round > 0) break;
    }
  }

  // Adds the constraints that are violated until none is, and returns how far the solution is from the present one.
  double hold(const Quadratic& q, std::vector<double>& z) {
    std::vector<Quadratic::Constraint> constraints;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> seen;
    const std::vector<double> before = x_;
    constexpr int kMostRounds = 60;
    constexpr double kToleranceUs = 1e-3;  // tolerance of a constraint: a thousandth of the resolution
    // Multipliers are bounded: what one constraint may cost. Any error of a clock by a second is worth more than that.
    double strength = 0;
    for (std::size_t i = 0; i < q.size(); ++i) strength = std::max(strength, 1e6 / std::max(q.variance(i), 1e-6));
    for (int round = 0; round < kMostRounds; ++round) {
      x_ = before;
      apply(z);
      std::size_t added = 0;
      const std::vector<Order> broken = violated(false);
      const std::vector<double> now = x_;
      x_ = before;
      for (const Order& o : broken) {
        if (!seen.emplace(std::pair(o.late, o.early), constraints.size()).second) continue;
        const Member &late = m_.members[o.late], &early = m_.members[o.early];
        Quadratic::Constraint c;
        derive(c.row, late, late.start, 1);
        derive(c.row, early, early.end, -1);
        c.bound = end(early) - start(late);
        constraints.push_back(std::move(c));
        ++added;
      }
      if (added == 0) break;
      q.satisfy(constraints, z, strength, kToleranceUs);
    }
    x_ = before;
    double moved = 0;
    for (const double v : z) moved = std::max(moved, std::abs(v));
    return moved;
  }

  // On the clocks as written (`raw`), or on those found so far.
  [[nodiscard]] double at(const Member& m, Ns t, bool raw) const {
    return raw ? static_cast<double>(t - anchor_[0]) * 1e-3 : us(m, t);
  }
  [[nodiscard]] std::vector<Order> violated(bool raw) const {
    // Times are cut to the resolution, so an order may look broken by that much and not be.
    return out_of_order(
        m_, [&](const Member& m) { return at(m, m.start, raw); }, [&](const Member& m) { return at(m, m.end, raw); },
        raw ? kResolutionUs : 0.5 * kResolutionUs);
  }
  [[nodiscard]] Ns spread(bool raw) const {
    return end_spread(m_, [&](const Member& m) { return at(m, m.end, raw); });
  }
  // Ranks whose files name the same host share its clock, unless the collectives say otherwise; so do ranks whose files name
  // none and whose clocks nothing distinguishes.
  void tie_hosts() {
    std::vector<std::uint32_t> heads;
    bool tied = false;
    for (std::uint32_t r = 0; r < n_; ++r) {
      if (known_[r] == 0) continue;
      const std::string& host = job_.ranks[r].host;
      const auto head = std::find_if(heads.begin(), heads.end(), [&](std::uint32_t f) {
        return job_.ranks[f].host == host && same_clock(r, f, host.empty() ? 2 : 3);
      });
      if (head == heads.end()) {
        heads.push_back(r);
        continue;
      }
      result_.clocks[r].host = *head;
      tied = true;
    }
    if (tied) solve(result_.drift_fitted);
  }

  /// Within so many standard errors.
  [[nodiscard]] bool same_clock(std::uint32_t a, std::uint32_t b, double errors) const {
    const double apart = std::abs(static_cast<double>(guess_[a] - guess_[b]) * 1e-3 + x_[a] - x_[b]);
    const double error = 1e-3 * std::hypot(static_cast<double>(result_.clocks[a].uncertainty),
                                           static_cast<double>(result_.clocks[b].uncertainty));
    if (apart > errors * error + kHostSpreadUs) return false;
    if (!result_.drift_fitted) return true;
    return std::abs(x_[n_ + a] - x_[n_ + b]) <= errors * std::hypot(drift_error_[a], drift_error_[b]) + kHostDriftPpm;
  }

  // Drift shows when it moves a clock further than collectives' ends are apart.
  [[nodiscard]] bool long_enough() const {
    Ns first = INT64_MAX, last = INT64_MIN;
    for (const Collective& c : m_.collectives) {
      const Member& m = m_.members[c.first];
      first = std::min(first, m.end + guess_[m.rank]);
      last = std::max(last, m.end + guess_[m.rank]);
    }
    constexpr Ns kShortest = kNsPerSecond;  // 20 ppm of it are 20 µs
    constexpr std::size_t kFewest = 10;
    return m_.collectives.size() >= kFewest && last - first >= kShortest;
  }

  void solve_drift() {
    const std::vector<double> without = x_;
    const std::vector<Clock> clocks = result_.clocks;
    drift_error_.assign(n_, 0.0);
    solve(true);
    // Kept where some clock's drift stands out of its error, by as many standard deviations as chance shows in one of 16,000 by definition;
    // quartz stays within a few hundred ppm, so that more is a guard against damaged times.
    constexpr double kClear = 4, kMostPpm = 1000;
    bool clear = false, sane = true;
    for (std::uint32_t r = 1; r < n_; ++r) {
      if (known_[r] == 0) continue;
      clear |= std::abs(x_[n_ + r]) > kClear * drift_error_[r];
      sane &= std::abs(x_[n_ + r]) < kMostPpm;
    }
    result_.drift_fitted = clear && sane;
    if (result_.drift_fitted) return;
    x_ = without;
    result_.clocks = clocks;
  }

  void finish() {
    std::map<std::uint32_t, std::uint32_t> numbers;
    for (Clock& c : result_.clocks) {
      c.host = numbers.emplace(c.host, static_cast<std::uint32_t>(numbers.size())).first->second;
    }
    result_.hosts = static_cast<std::uint32_t>(numbers.size());
    result_.end_spread = spread(false);
    for (const Order& o : violated(false)) {
      Impossible i;
      const auto k = std::upper_bound(m_.collectives.begin(), m_.collectives.end(), o.late,
                                      [](std::uint32_t at, const Collective& c) { return at < c.first; });
      i.collective = static_cast<std::uint32_t>(k - m_.collectives.begin()) - 1;
      i.late = m_.members[o.late].rank;
      i.early = m_.members[o.early].rank;
      i.by = static_cast<Ns>(std::llround((start(m_.members[o.late]) - end(m_.members[o.early])) * 1e3));
      result_.impossible.push_back(i);
    }
    std::stable_sort(result_.impossible.begin(), result_.impossible.end(),
                     [](const Impossible& a, const Impossible& b) { return a.by > b.by; });
  }

  struct Variance {
    double squares = 0, count = 0, mixed = -1;
    void add(const Variance& other) {
      squares += other.squares;
      count += other.count;
    }
    void mix(double typical, double samples) { mixed = (squares + typical * samples) / (count + samples); }
    [[nodiscard]] double value() const {
      const double v = mixed >= 0 ? mixed : count > 0 ? squares / count : 1e6;
      return std::max(v, kResolutionUs * kResolutionUs / 12);
    }
  };

  const Job& job_;
  const Matching& m_;
  std::size_t n_;
  std::vector<Ns> guess_, anchor_;  // first clock = own clock + guess
  std::vector<char> known_;
  std::vector<double> x_;  // corrections in µs, then in µs per second
  std::vector<std::uint32_t> unknown_, unknown_drift_;
  std::vector<Variance> within_, between_;
  std::vector<std::vector<double>> length_;
  std::vector<double> drift_error_;
  bool with_drift_ = false;
  std::size_t stride_ = 1;
  Clocks result_;
};

}  // namespace

Clocks align_clocks(const Job& job, const Matching& matching, const ClockOptions& options) {
  return Solver(job, matching).run(options);
}

}  // namespace foretrace::ranks
