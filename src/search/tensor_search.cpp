// The guided search: moves along the critical path until none gains, then again from a perturbed plan.

#include <algorithm>
#include <random>

#include "search/moves/plan_move.hpp"

namespace foretrace::search {

namespace {

class Search {
 public:
  Search(const TensorProblem& p, TensorPlan start, const TensorOptions& o)
      : p_(p), o_(o), evaluator_(p, o.incremental), random_(o.seed), plan_(std::move(start)) {
    operation_of_.assign(p.graph->size(), kNone);
    tensor_of_.assign(p.graph->size(), kNone);
    for (std::uint32_t i = 0; i < p.operations.size(); ++i) {
      operation_of_[p.operations[i].task] = i;
      if (p.operations[i].cpu != kNone) operation_of_[p.operations[i].cpu] = i;
    }
    for (std::uint32_t i = 0; i < p.tensors.size(); ++i) {
      tensor_of_[p.tensors[i].collective] = i;
      for (const std::uint32_t cpu : p.tensors[i].per_bucket) tensor_of_[cpu] = i;
    }
  }

  TensorResult run() {
    TensorResult r;
    apply(p_, o_, {}, plan_);
    step_ = r.first_step = take(plan_);
    descend();
    TensorPlan best = plan_;
    Ns best_step = step_;
    for (int idle = 0; idle < o_.idle_rounds && !over();) {
      plan_ = best;
      shake();
      if (over()) break;
      step_ = take(plan_);
      descend();
      if (step_ < best_step) {
        best = plan_;
        best_step = step_;
        idle = 0;
      } else {
        ++idle;
      }
    }
    r.plan = std::move(best);
    r.step = best_step;
    r.evaluations = evaluator_.evaluations();
    return r;
  }

 private:
  [[nodiscard]] bool over() const { return evaluator_.evaluations() >= o_.evaluations || (o_.stop && o_.stop()); }

  Ns take(const TensorPlan& plan) {
    const Ns step = evaluator_.evaluate(plan);
    evaluator_.accept();
    return step;
  }

  PlanView look() {
    evaluator_.look_at(nullptr);
    PlanView view{p_, evaluator_, plan_, o_, {}, {}};
    std::vector<std::uint8_t> seen_operation(p_.operations.size(), 0);
    std::vector<std::uint8_t> seen_tensor(p_.tensors.size(), 0);
    for (std::uint32_t t = p_.graph->last.value; t != kNone; t = evaluator_.cause(t)) {
      if (const std::uint32_t i = operation_of_[t]; i != kNone) seen_operation[i] = 1;
      if (const std::uint32_t i = tensor_of_[t]; i != kNone) seen_tensor[i] = 1;
    }
    for (std::uint32_t i = 0; i < p_.operations.size(); ++i) {
      // What is fused into an operation on the path is on it too.
      if (i > 0 && seen_operation[i - 1] != 0 && plan_.fused_with_previous[i] != 0) seen_operation[i] = 1;
      if (seen_operation[i] != 0) view.operations.push_back(i);
    }
    for (std::uint32_t i = 0; i < p_.tensors.size(); ++i) {
      if (seen_tensor[i] != 0) view.tensors.push_back(i);
    }
    return view;
  }

  void descend() {
    for (bool gained = true; gained && !over();) {
      gained = false;
      for (const PlanMove& move : plan_moves()) {
        std::vector<Edits> proposals;
        const PlanView view = look();
        move.propose(view, proposals);
        for (const Edits& edits : proposals) {
          if (over()) return;
          gained |= try_edits(edits);
        }
      }
      if (!gained) gained = fuse_and_reassign();
    }
  }

  // Fusing operations moves the moments at which gradients are ready; what that is worth shows with buckets made for it.
  bool fuse_and_reassign() {
    if (!o_.assign) return false;
    const std::vector<std::uint32_t> operations = look().operations;
    for (const std::uint32_t n : operations) {
      if (n == 0) continue;
      if (over()) return false;
      TensorPlan flipped = plan_;
      apply(p_, o_, {{Edit::kFuse, n, static_cast<std::uint8_t>(plan_.fused_with_previous[n] != 0 ? 0 : 1)}}, flipped);
      if (!possible(flipped)) continue;
      evaluator_.look_at(&flipped);
      std::vector<Edits> proposals;
      assign_buckets_move().propose({p_, evaluator_, flipped, o_, {}, {}}, proposals);
      for (const Edits& edits : proposals) {
        TensorPlan candidate = flipped;
        apply(p_, o_, edits, candidate);
        if (candidate == plan_) continue;
        const Ns step = evaluator_.evaluate(candidate);
        if (step >= step_) continue;
        evaluator_.accept();
        plan_ = std::move(candidate);
        step_ = step;
        return true;
      }
    }
    return false;
  }

  bool try_edits(const Edits& edits) {
    TensorPlan candidate = plan_;
    apply(p_, o_, edits, candidate);
    if (candidate == plan_ || !possible(candidate)) return false;
    const Ns step = evaluator_.evaluate(candidate);
    // Of equally fast plans the one with fewer calls: what they cost is not all in the graph.
    if (step > step_ || (step == step_ && calls(candidate) >= calls(plan_))) return false;
    evaluator_.accept();
    plan_ = std::move(candidate);
    step_ = step;
    return true;
  }

  static std::size_t calls(const TensorPlan& plan) {
    std::size_t n = 0;
    for (std::size_t i = 0; i < plan.joined_with_previous.size(); ++i) {
      const bool last = i + 1 == plan.joined_with_previous.size() || plan.joined_with_previous[i + 1] == 0;
      if (last) n += plan.parts[i];
    }
    return n;
  }

  [[nodiscard]] bool possible(const TensorPlan& plan) const {
    for (std::size_t i = 1; i < p_.operations.size(); ++i) {
      if (plan.fused_with_previous[i] == 0) continue;
      std::size_t first = i - 1;
      while (first > 0 && plan.fused_with_previous[first] != 0) --first;
      if (!p_.fused(static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(i))) return false;
    }
    return true;
  }

  void shake() {
    for (int i = 0; i < 3; ++i) {
      TensorPlan candidate = plan_;
      const std::size_t bits = p_.operations.size() + p_.tensors.size();
      if (bits == 0) return;
      const std::size_t b = random_() % bits;
      const bool fuse = b < p_.operations.size();
      const auto index = static_cast<std::uint32_t>(fuse ? b : b - p_.operations.size());
      const bool was = (fuse ? candidate.fused_with_previous : candidate.joined_with_previous)[index] != 0;
      apply(p_, o_, {{fuse ? Edit::kFuse : Edit::kJoin, index, static_cast<std::uint8_t>(was ? 0 : 1)}}, candidate);
      if (possible(candidate)) plan_ = std::move(candidate);
    }
  }

  const TensorProblem& p_;
  const TensorOptions& o_;
  TensorEvaluator evaluator_;
  std::mt19937_64 random_;
  TensorPlan plan_;
  Ns step_ = 0;
  std::vector<std::uint32_t> operation_of_, tensor_of_;
};

}  // namespace

TensorResult search_tensors(const TensorProblem& problem, const TensorPlan& start, const TensorOptions& options) {
  return Search(problem, start, options).run();
}

}  // namespace foretrace::search
