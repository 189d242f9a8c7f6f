// Thins a suite's grid of parameters, of which the large ones have hundreds of thousands of points,
// to what a core can run: deterministic, and no value of an axis is lost but the dearest. Callers:
// the suites of `attest_bench peers`.
#ifndef ATTEST_BENCH_PEERS_GRID_H_
#define ATTEST_BENCH_PEERS_GRID_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace attest {

// One number an axis: which of its values.
using Point = std::vector<size_t>;

struct Axis {
  size_t values = 1;
  bool is_size = false;  // a length or head size: what costs
};

struct GridLimits {
  double most_a_point = 0;  // dearer points are left out
  double all = 0;           // what the whole choice may cost, once all values are covered
};

struct ThinnedGrid {
  std::vector<Point> chosen;   // in the order of the grid
  int64_t points = 0;          // those of the grid that the suite does not skip
  int64_t values_missing = 0;  // values of axes that stand in no point cheap enough
};

// `cost` is nullopt for a point that the suite skips. Chosen are points that hold every value of
// each axis and every pair of values of two axes that are no sizes, as far as there is such a point
// within the limit, cheap ones first; then points in a fixed shuffled order until `all` is spent.
ThinnedGrid Thin(const std::vector<Axis>& axes,
                 const std::function<std::optional<double>(const Point&)>& cost,
                 const GridLimits& limits);

}  // namespace attest

#endif  // ATTEST_BENCH_PEERS_GRID_H_
