#include "properties/bench/peers/grid.h"

#include <algorithm>

#include "properties/harness/case/random.h"

namespace attest {
namespace {

// A point that may be chosen. `goals` are the numbers of the values and pairs it holds.
struct Candidate {
  Point point;
  double cost = 0;
  uint64_t shuffled = 0;
  std::vector<size_t> goals;
  bool is_chosen = false;
};

// Numbers the values of axes and the pairs of values of two axes that are no sizes.
class Goals {
 public:
  explicit Goals(const std::vector<Axis>& axes) : axes_(axes) {
    for (const Axis& axis : axes) {
      first_.push_back(count_);
      count_ += axis.values;
    }
    values_ = count_;
    for (size_t a = 0; a < axes.size(); ++a) {
      for (size_t b = a + 1; b < axes.size(); ++b) {
        first_pair_.push_back(count_);
        if (IsPaired(a, b)) count_ += axes[a].values * axes[b].values;
      }
    }
  }

  std::vector<size_t> Of(const Point& point) const {
    std::vector<size_t> goals;
    for (size_t a = 0; a < axes_.size(); ++a) goals.push_back(first_[a] + point[a]);
    size_t pair = 0;
    for (size_t a = 0; a < axes_.size(); ++a) {
      for (size_t b = a + 1; b < axes_.size(); ++b, ++pair) {
        if (!IsPaired(a, b)) continue;
        goals.push_back(first_pair_[pair] + point[a] * axes_[b].values + point[b]);
      }
    }
    return goals;
  }

  size_t count() const { return count_; }
  size_t values() const { return values_; }  // the goals below are single values

 private:
  bool IsPaired(size_t a, size_t b) const { return !axes_[a].is_size && !axes_[b].is_size; }

  const std::vector<Axis>& axes_;
  std::vector<size_t> first_, first_pair_;
  size_t count_ = 0, values_ = 0;
};

bool Advance(const std::vector<Axis>& axes, Point& point) {
  for (size_t a = axes.size(); a-- > 0;) {
    if (++point[a] < axes[a].values) return true;
    point[a] = 0;
  }
  return false;
}

uint64_t HashOf(const Point& point) {
  uint64_t hash = 1;
  for (const size_t value : point) hash = MixIn(hash, value);
  return hash;
}

// The unchosen candidate that reaches most new goals for its cost; nullptr where none reaches one.
Candidate* Best(std::vector<Candidate>& candidates, const std::vector<bool>& reached) {
  Candidate* best = nullptr;
  double best_worth = 0;
  for (Candidate& candidate : candidates) {
    const auto fresh =
        std::ranges::count_if(candidate.goals, [&](size_t goal) { return !reached[goal]; });
    const double worth = static_cast<double>(fresh) / candidate.cost;
    if (fresh == 0 || worth < best_worth) continue;
    if (worth == best_worth && candidate.shuffled > best->shuffled) continue;
    best = &candidate;
    best_worth = worth;
  }
  return best;
}

double Cover(std::vector<Candidate>& candidates, std::vector<bool>& reached) {
  double spent = 0;
  while (Candidate* best = Best(candidates, reached)) {
    best->is_chosen = true;
    spent += best->cost;
    for (const size_t goal : best->goals) reached[goal] = true;
  }
  return spent;
}

void Fill(std::vector<Candidate>& candidates, double budget) {
  std::vector<Candidate*> order;
  for (Candidate& candidate : candidates) order.push_back(&candidate);
  std::ranges::sort(order, {}, &Candidate::shuffled);
  for (Candidate* candidate : order) {
    if (candidate->is_chosen || candidate->cost > budget) continue;
    candidate->is_chosen = true;
    budget -= candidate->cost;
  }
}

}  // namespace

ThinnedGrid Thin(const std::vector<Axis>& axes,
                 const std::function<std::optional<double>(const Point&)>& cost,
                 const GridLimits& limits) {
  const Goals goals(axes);
  ThinnedGrid grid;
  std::vector<Candidate> candidates;
  Point point(axes.size(), 0);
  do {
    const std::optional<double> price = cost(point);
    if (!price) continue;
    ++grid.points;
    if (*price > limits.most_a_point) continue;
    candidates.push_back({point, std::max(*price, 1.0), HashOf(point), goals.Of(point)});
  } while (Advance(axes, point));
  std::vector<bool> reached(goals.count(), false);
  const double spent = Cover(candidates, reached);
  Fill(candidates, limits.all - spent);
  for (const Candidate& candidate : candidates) {
    if (candidate.is_chosen) grid.chosen.push_back(candidate.point);
  }
  grid.values_missing =
      std::count(reached.begin(), reached.begin() + static_cast<long>(goals.values()), false);
  return grid;
}

}  // namespace attest
