#include "search/strategy_tree.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/workers.hpp"
#include "search/evaluate.hpp"

namespace foretrace::search {

using whatif::Model;
using whatif::Prediction;
using whatif::Use;

/// One change behind those of its parents.
struct StrategyTree::Node {
  Node* parent = nullptr;  ///< null: the root, nothing changed
  Use use = {};
  bool passing = false;                                        ///< there for one question, and then gone
  std::map<std::string, std::unique_ptr<Node>> children = {};  ///< by text
  whatif::SharedModel model = {};                              ///< while it is kept
  Prediction::Applied applied = {};                            ///< what it took
  std::string declined = {};                                   ///< why it does not apply; then nothing behind it does

  // Of the questions at hand:
  std::vector<std::size_t> questions = {};  ///< that end here
  std::vector<Node*> next = {};             ///< children on the way to others
  std::size_t open = 0;                     ///< of those, not yet done
  bool wanted = false;
};

/// One call of predict: the part of the tree its questions lead through, from the root on. Depth first, so that few models are
/// alive at a time.
class StrategyTree::Walk {
 public:
  Walk(StrategyTree& tree, const std::vector<Question>& questions, const Look& look)
      : tree_(tree), questions_(questions), look_(look), uses_(questions.size()), answers_(questions.size()) {
    for (std::size_t q = 0; q < questions.size(); ++q) lay_out(q);
    if (tree_.root_->wanted) todo_.push_back(tree_.root_.get());
  }

  std::vector<Prediction> run(unsigned threads) {
    const auto work = [this] {
      while (Node* const node = take()) {
        visit(*node);
        finish(*node);
      }
    };
    const std::size_t useful = std::clamp<std::size_t>(questions_.size(), 1, thread_count(threads));
    run_workers(static_cast<unsigned>(useful), work, [this] {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      changed_.notify_all();
    });
    for (std::size_t q = 0; q < questions_.size(); ++q) answers_[q].whatif = describe(questions_[q].strategy);
    return std::move(answers_);
  }

 private:
  void lay_out(std::size_t q) {
    Result<std::vector<Use>> uses = all_uses(tree_.model_, questions_[q].strategy);
    if (!uses) {
      answers_[q].declined = uses.error().message;
      return;
    }
    if (const Status possible = whatif::Predictor::check(tree_.model_, !uses->empty()); !possible) {
      answers_[q].declined = possible.error().message;
      return;
    }
    uses_[q] = std::move(*uses);
    Node* node = tree_.root_.get();
    node->wanted = true;
    for (const Use& use : uses_[q]) {
      // What is not of the catalogue is told apart by more than its text.
      Node* const child = use.own || node->passing ? passing_node(*node, use) : &node_of(*node, use);
      if (!child->wanted) {
        child->wanted = true;
        node->next.push_back(child);
        if (child->model) tree_.unkeep(*child);
      }
      node = child;
    }
    node->questions.push_back(q);
  }

  Node* passing_node(Node& parent, const Use& use) {
    passing_.push_back(std::make_unique<Node>(Node{.parent = &parent, .use = use, .passing = true}));
    return passing_.back().get();
  }

  Node* take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || !todo_.empty() || busy_ == 0; });
    if (stopped_ || todo_.empty()) return nullptr;
    Node* const node = todo_.back();
    todo_.pop_back();
    ++busy_;
    return node;
  }

  void visit(Node& node) {
    if (node.parent != nullptr && !node.model && node.declined.empty()) {
      Result<whatif::SharedModel> applied = tree_.predictor_.apply(node.parent->model.get(), node.use, &node.applied);
      if (applied) {
        node.model = std::move(*applied);
      } else {
        node.declined = applied.error().message;
      }
    }
    if (!node.declined.empty()) {
      decline(node, node.declined);
      return;
    }
    const Model& model = node.parent == nullptr ? tree_.model_ : *node.model;
    for (const std::size_t q : node.questions) {
      answers_[q] = tree_.predictor_.describe(model, uses_[q], questions_[q].detail);
      answers_[q].applied = applied_before(node);
      if (look_) look_(q, model);
    }
  }

  // From the first change on, as far as they could be applied.
  static std::vector<Prediction::Applied> applied_before(const Node& node) {
    std::vector<Prediction::Applied> out;
    for (const Node* n = &node; n->parent != nullptr; n = n->parent) {
      if (!n->applied.text.empty()) out.push_back(n->applied);
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

  void decline(Node& node, const std::string& why) {
    for (const std::size_t q : node.questions) {
      answers_[q].declined = why;
      answers_[q].applied = applied_before(node);
    }
    for (Node* const child : node.next) {
      decline(*child, why);
      forget(*child);
    }
    node.next.clear();
  }

  void finish(Node& node) {
    const std::lock_guard lock(mutex_);
    --busy_;
    node.open = node.next.size();
    todo_.insert(todo_.end(), node.next.rbegin(), node.next.rend());
    for (Node* done = &node; done != nullptr && done->open == 0; done = done->parent) {
      forget(*done);
      if (done->model) tree_.keep(*done);
      if (done->parent == nullptr) break;
      if (--done->parent->open > 0) break;
    }
    changed_.notify_all();
  }

  static void forget(Node& node) {
    node.questions.clear();
    node.next.clear();
    node.wanted = false;
  }

  StrategyTree& tree_;
  const std::vector<Question>& questions_;
  const Look& look_;
  std::vector<std::vector<Use>> uses_;
  std::vector<Prediction> answers_;
  std::vector<std::unique_ptr<Node>> passing_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Node*> todo_;  ///< whose parents are done; the last one is next
  std::size_t busy_ = 0;
  bool stopped_ = false;
};

StrategyTree::StrategyTree(const analysis::Baseline& base, std::size_t keep_tasks)
    : model_(base.model),
      predictor_(base.model, base.figures.measured),
      root_(std::make_unique<Node>()),
      keep_tasks_(keep_tasks) {}

StrategyTree::~StrategyTree() = default;

StrategyTree::Node& StrategyTree::node_of(Node& parent, const Use& use) {
  std::unique_ptr<Node>& child = parent.children[use.text];
  if (!child) child = std::make_unique<Node>(Node{.parent = &parent, .use = use});
  return *child;
}

void StrategyTree::keep(Node& node) {
  if (node.passing) {
    node.model.reset();
    return;
  }
  kept_.push_back(&node);
  kept_tasks_ += node.model->graph.size();
  while (kept_tasks_ > keep_tasks_) {
    kept_tasks_ -= kept_.front()->model->graph.size();
    kept_.front()->model.reset();
    kept_.pop_front();
  }
}

void StrategyTree::unkeep(Node& node) {
  const auto at = std::find(kept_.begin(), kept_.end(), &node);
  if (at == kept_.end()) return;
  kept_tasks_ -= node.model->graph.size();
  kept_.erase(at);
}

std::vector<Prediction> StrategyTree::predict(const std::vector<Question>& questions, unsigned threads,
                                              const Look& look) {
  return Walk(*this, questions, look).run(threads);
}

}  // namespace foretrace::search
