#include "whatif/parallel/p3_sends.hpp"

#include <algorithm>
#include <deque>

namespace foretrace::whatif {
namespace {

class TrainingThread {
 public:
  TrainingThread(const std::vector<Outgoing>& gradients, Ns send, bool priorities)
      : gradients_(gradients), send_(send), priorities_(priorities) {
    for (const Outgoing& g : gradients) left_.push_back(g.slices);
  }

  // Sends what is ready, up to the limit of slices in flight; false: nothing can be sent now.
  bool send(Ns& now, SentSlice::Where where, std::uint32_t hook) {
    while (!under_way_.empty() && under_way_.front() <= now) under_way_.pop_front();
    if (under_way_.size() >= kUnderWay) return false;
    const auto count = static_cast<std::uint32_t>(left_.size());
    for (std::uint32_t k = 0; k < count; ++k) {
      const std::uint32_t i = priorities_ ? count - 1 - k : k;
      if (left_[i] == 0 || gradients_[i].ready > now) continue;
      --left_[i];
      sent.push_back({i, where, hook});
      now += send_;
      network_ = std::max({network_, now, gradients_[i].passes}) + gradients_[i].exchange;
      under_way_.push_back(network_);
      return true;
    }
    return false;
  }

  // When there is more to send, or room for it.
  [[nodiscard]] Ns next(Ns now, Ns otherwise) const {
    if (under_way_.size() >= kUnderWay) return std::min(under_way_.front(), otherwise);
    for (std::size_t i = 0; i < left_.size(); ++i) {
      if (left_[i] > 0 && gradients_[i].ready > now) otherwise = std::min(otherwise, gradients_[i].ready);
    }
    return otherwise;
  }

  void send_before_layers() {
    std::vector<std::uint32_t> order;
    for (auto i = static_cast<std::uint32_t>(left_.size()); i-- > 0;) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return gradients_[a].layer < gradients_[b].layer; });
    for (const std::uint32_t i : order) {
      for (; left_[i] > 0; --left_[i]) sent.push_back({i, SentSlice::kBeforeLayer, 0});
    }
  }

  std::vector<SentSlice> sent;

 private:
  const std::vector<Outgoing>& gradients_;
  Ns send_;
  bool priorities_;
  std::vector<std::uint32_t> left_;
  std::deque<Ns> under_way_;  // when each gets through
  Ns network_ = 0;
};

}  // namespace

std::vector<SentSlice> sends_of_training_thread(const std::vector<Outgoing>& gradients, Ns launched, Ns computed,
                                                Ns send, bool priorities) {
  TrainingThread thread(gradients, send, priorities);
  Ns late = 0;  // what sending holds the launches of backward up
  for (std::uint32_t i = 0; i < gradients.size(); ++i) {
    const Ns began = gradients[i].hook + late;
    Ns now = began;
    while (thread.send(now, SentSlice::kInHook, i)) {
    }
    late += now - began;
  }
  for (Ns now = launched + late; now < computed;) {
    if (!thread.send(now, SentSlice::kBehindBackward, 0)) now = std::max(now + 1, thread.next(now, computed));
  }
  thread.send_before_layers();
  return std::move(thread.sent);
}

}  // namespace foretrace::whatif
