#pragma once
// Which CPU tasks of a changed step come before which, whatever they cost: along a lane, and across lanes where a thread waits
// for another. Tasks are named by lane and position on it. Stored as vector clocks: for each place that waits for another
// lane, the latest position of every lane that has finished by then.
//
//   CallOrder order(lanes);
//   order.wait({0, 12}, {1, 0});      // lane 1 begins behind task 12 of lane 0
//   order.settle();
//   order.before({0, 3}, {1, 7})      // true

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace foretrace::whatif {

class CallOrder {
 public:
  struct Place {
    std::uint32_t lane = 0, position = 0;
    bool operator==(const Place&) const = default;
  };

  explicit CallOrder(std::size_t lanes) : waits_(lanes) {}
  CallOrder(const CallOrder&) = delete;
  CallOrder& operator=(const CallOrder&) = delete;

  /// `to` cannot start before `from`.
  void wait(Place from, Place to);
  /// When all waits are known.
  void settle();

  /// Whether `b` always comes behind `a`. A task does not come behind itself.
  [[nodiscard]] bool before(Place a, Place b) const;
  /// One more than the last position of `lane` that always comes before `place`, itself included on its own lane; 0: none.
  [[nodiscard]] std::uint32_t known(Place place, std::uint32_t lane) const;

 private:
  struct Wait {
    std::vector<Place> on;
    std::map<std::uint32_t, std::uint32_t> clock;  // lane -> positions known to be over; those of its own lane left out
  };
  std::vector<std::map<std::uint32_t, Wait>> waits_;  // by lane and position
  std::vector<std::vector<std::pair<std::uint32_t, const Wait*>>> settled_;
};

}  // namespace foretrace::whatif
