#include "impl/transformer/positions.h"

#include <bit>

namespace attest::transformer {
namespace {

int64_t PastOf(const std::vector<int64_t>& past, int64_t b, Fault fault) {
  if (past.empty()) return 0;
  const int64_t count = past[static_cast<size_t>(b)];
  if (fault == Fault::kPositionsRestart) return 0;
  if (fault == Fault::kPositionsOfItem0) return past[0];
  return count + (fault == Fault::kCachePositionOffByOne && count > 0 ? 1 : 0);
}

}  // namespace

std::vector<int64_t> PositionIds(const Places& places, const std::vector<int64_t>& past,
                                 Fault fault) {
  std::vector<int64_t> ids(static_cast<size_t>(places.rows()), 0);
  for (int64_t b = 0; b < places.batch; ++b) {
    int64_t begin = fault == Fault::kPositionsIgnoreLeftPadding ? 0 : places.Begin(b);
    const int64_t first = places.FirstPosition(b) + PastOf(past, b, fault);
    for (int64_t i = places.Begin(b); i < places.End(b); ++i) {
      const bool new_document =
          i > places.Begin(b) && places.Document(b, i) != places.Document(b, i - 1);
      if (new_document) begin = i;
      ids[static_cast<size_t>(places.Row(b, i))] = first + i - begin;
    }
  }
  return ids;
}

std::vector<double> AlibiSlopes(int64_t heads) {
  const auto lower = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<double> slopes;
  for (int64_t h = 0; h < heads; ++h) {
    const double step =
        h < lower ? static_cast<double>(h + 1) : static_cast<double>(h - lower) + 0.5;
    slopes.push_back(std::exp2(-8.0 * step / static_cast<double>(lower)));
  }
  return slopes;
}

}  // namespace attest::transformer
