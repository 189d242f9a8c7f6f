#include "properties/exhaustive/covering_array.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "properties/harness/case/random.h"

namespace attest {
namespace {

// One level of one factor.
struct Setting {
  size_t factor = 0;
  int level = 0;
};

// Which pairs of settings no row has yet.
class PairTable {
 public:
  explicit PairTable(const std::vector<int>& level_counts) {
    for (const int count : level_counts) {
      first_.push_back(settings_.size());
      for (int level = 0; level < count; ++level) settings_.push_back({first_.size() - 1, level});
    }
    missing_.assign(settings_.size() * settings_.size(), 1);
    for (size_t a = 0; a < settings_.size(); ++a) {
      for (size_t b = 0; b < settings_.size(); ++b) {
        if (settings_[a].factor >= settings_[b].factor) missing_[a * settings_.size() + b] = 0;
      }
    }
  }

  bool IsMissing(Setting a, Setting b) const { return missing_[Place(a, b)] != 0; }
  void Cover(Setting a, Setting b) { missing_[Place(a, b)] = 0; }

  // The first pair that is missing, or nullopt when all are covered.
  std::optional<std::pair<Setting, Setting>> FirstMissing() const {
    for (size_t n = 0; n < missing_.size(); ++n) {
      if (missing_[n] == 0) continue;
      return std::pair{settings_[n / settings_.size()], settings_[n % settings_.size()]};
    }
    return std::nullopt;
  }

 private:
  size_t Place(Setting a, Setting b) const {
    if (a.factor > b.factor) std::swap(a, b);
    const auto flat = [&](Setting s) { return first_[s.factor] + static_cast<size_t>(s.level); };
    return flat(a) * settings_.size() + flat(b);
  }

  std::vector<Setting> settings_;
  std::vector<size_t> first_;     // where a factor's settings begin
  std::vector<uint8_t> missing_;  // by place of the pair, lower factor first
};

// The level of `factor` that covers most missing pairs with what `row` has set already (unset: -1).
// Of equals the one that `draw` points at, so that factors do not change in step.
int BestLevel(const PairTable& pairs, const std::vector<int>& row, size_t factor, int count,
              uint64_t draw) {
  int best = 0, most = -1;
  for (int n = 0; n < count; ++n) {
    const auto level =
        static_cast<int>((draw + static_cast<uint64_t>(n)) % static_cast<uint64_t>(count));
    int covered = 0;
    for (size_t other = 0; other < row.size(); ++other) {
      if (other == factor || row[other] < 0) continue;
      covered += pairs.IsMissing({factor, level}, {other, row[other]}) ? 1 : 0;
    }
    if (covered > most) {
      most = covered;
      best = level;
    }
  }
  return best;
}

}  // namespace

std::vector<std::vector<int>> CoverPairs(const std::vector<int>& level_counts) {
  std::vector<std::vector<int>> rows;
  PairTable pairs(level_counts);
  Draw draw(0);
  while (const auto seed = pairs.FirstMissing()) {
    std::vector<int> row(level_counts.size(), -1);
    row[seed->first.factor] = seed->first.level;
    row[seed->second.factor] = seed->second.level;
    for (size_t factor = 0; factor < row.size(); ++factor) {
      if (row[factor] < 0) {
        row[factor] = BestLevel(pairs, row, factor, level_counts[factor], draw.Bits());
      }
    }
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = a + 1; b < row.size(); ++b) pairs.Cover({a, row[a]}, {b, row[b]});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace attest
