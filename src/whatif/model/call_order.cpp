#include "whatif/model/call_order.hpp"

#include <algorithm>
#include <iterator>

namespace foretrace::whatif {

namespace {

bool raise(std::map<std::uint32_t, std::uint32_t>& clock, std::uint32_t lane, std::uint32_t to) {
  std::uint32_t& known = clock[lane];
  if (known >= to) return false;
  known = to;
  return true;
}

template <class Wait>
std::uint32_t clock_of(const Wait& wait, std::uint32_t lane) {
  const auto found = wait.clock.find(lane);
  return found == wait.clock.end() ? 0 : found->second;
}

}  // namespace

void CallOrder::wait(Place from, Place to) {
  if (from.lane != to.lane) waits_[to.lane][to.position].on.push_back(from);
}

void CallOrder::settle() {
  // Clocks only grow, and what a thread learns it hands on: a few rounds are enough for any number of hand-overs that follow
  // each other in time, and each round ends when nothing is new.
  for (bool news = true; news;) {
    news = false;
    for (std::uint32_t lane = 0; lane < waits_.size(); ++lane) {
      const std::map<std::uint32_t, std::uint32_t>* before = nullptr;
      for (auto& [position, wait] : waits_[lane]) {
        if (before != nullptr) {
          for (const auto& [other, known] : *before) news |= raise(wait.clock, other, known);
        }
        for (const Place& on : wait.on) {
          news |= raise(wait.clock, on.lane, on.position + 1);
          const auto& there = waits_[on.lane];
          auto last = there.upper_bound(on.position);
          if (last == there.begin()) continue;
          --last;
          for (const auto& [other, known] : last->second.clock) {
            if (other != lane) news |= raise(wait.clock, other, known);
          }
        }
        before = &wait.clock;
      }
    }
  }
  settled_.resize(waits_.size());
  for (std::size_t lane = 0; lane < waits_.size(); ++lane) {
    for (const auto& [position, wait] : waits_[lane]) settled_[lane].emplace_back(position, &wait);
  }
}

std::uint32_t CallOrder::known(Place place, std::uint32_t lane) const {
  if (lane == place.lane) return place.position + 1;
  const auto& own = settled_[place.lane];
  const auto behind = std::upper_bound(own.begin(), own.end(), place.position,
                                       [](std::uint32_t position, const auto& wait) { return position < wait.first; });
  return behind == own.begin() ? 0 : clock_of(*std::prev(behind)->second, lane);
}

bool CallOrder::before(Place a, Place b) const {
  if (a == b) return false;
  return known(b, a.lane) > a.position;
}

}  // namespace foretrace::whatif
