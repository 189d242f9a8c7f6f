#include "properties/harness/case/seeded.h"

#include <array>
#include <vector>

#include "properties/harness/case/random.h"

namespace attest {
namespace {

enum class Side : uint64_t { kKey, kQuery };

// The documents of one batch item, position by position.
class DocumentRun {
 public:
  DocumentRun(uint16_t seed, int64_t batch, Side side) {
    const uint64_t traits = MixBits(seed);
    constexpr std::array<uint64_t, 4> kOdds = {2, 3, 4, 8};
    constexpr std::array<int64_t, 4> kPeriods = {INT64_MAX, 2, 3, INT64_MAX};
    constexpr std::array<int64_t, 4> kFirst = {0, 0, -1, 1000000007};
    odds_ = kOdds[traits % 4];
    period_ = kPeriods[(traits >> 2) % 4];
    first_ = kFirst[(traits >> 4) % 4];
    const bool together = ((traits >> 6) & 1) != 0, ahead = (traits >> 7) % 4 == 0;
    if (side == Side::kQuery && ahead) ++first_;
    const uint64_t stream = together ? 0 : static_cast<uint64_t>(side);
    hash_ = MixIn(MixIn(traits, static_cast<uint64_t>(batch)), stream);
  }

  int64_t Next() {
    const bool starts = position_ > 0 && MixIn(hash_, position_) % odds_ == 0;
    ++position_;
    if (starts) ++run_;
    return first_ + run_ % period_;
  }

 private:
  uint64_t odds_, hash_, position_ = 0;
  int64_t period_, first_, run_ = 0;
};

// Calls visit(number) for [batch, len] in row-major order until it returns false.
template <typename Visitor>
bool VisitDocuments(uint16_t seed, int64_t batch, int64_t len, Side side, Visitor&& visit) {
  for (int64_t b = 0; b < batch; ++b) {
    DocumentRun run(seed, b, side);
    for (int64_t n = 0; n < len; ++n) {
      if (!visit(run.Next())) return false;
    }
  }
  return true;
}

std::vector<int64_t> SeededIds(uint16_t seed, int64_t batch, int64_t len, Side side) {
  std::vector<int64_t> ids;
  VisitDocuments(seed, batch, len, side, [&](int64_t id) {
    ids.push_back(id);
    return true;
  });
  return ids;
}

bool Makes(uint16_t seed, int64_t batch, int64_t len, Side side, const std::vector<int64_t>& ids) {
  size_t at = 0;
  return VisitDocuments(seed, batch, len, side, [&](int64_t id) { return id == ids[at++]; });
}

// Calls visit(bit) for each weight in row-major order until it returns false.
template <typename Visitor>
bool VisitKept(uint16_t seed, const Problem& p, Visitor&& visit) {
  const uint64_t traits = MixBits(seed ^ 0xD50000u);
  constexpr std::array<uint64_t, 4> kKeptEighths = {4, 7, 1, 8};
  const uint64_t kept = kKeptEighths[traits % 4];
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t h = 0; h < p.q_heads; ++h)
      for (int64_t i = 0; i < p.q_len; ++i) {
        uint64_t row = MixIn(traits, static_cast<uint64_t>(b));
        row = MixIn(MixIn(row, static_cast<uint64_t>(h)), static_cast<uint64_t>(i));
        for (int64_t j = 0; j < p.kv_len; ++j) {
          if (!visit(MixIn(row, static_cast<uint64_t>(j)) % 8 < kept)) return false;
        }
      }
  return true;
}

template <typename Fits>
std::optional<uint16_t> FindSeed(Fits&& fits) {
  for (uint32_t seed = 0; seed <= UINT16_MAX; ++seed) {
    if (fits(static_cast<uint16_t>(seed))) return static_cast<uint16_t>(seed);
  }
  return std::nullopt;
}

}  // namespace

Documents SeededDocuments(uint16_t seed, const Problem& p) {
  return {SeededIds(seed, p.batch, p.q_len, Side::kQuery),
          SeededIds(seed, p.batch, p.kv_len, Side::kKey)};
}

BitPlane SeededKeep(uint16_t seed, const Problem& p) {
  BitPlane plane;
  plane.shape = p.WeightsShape();
  plane.bits.reserve(static_cast<size_t>(ElementCount(plane.shape)));
  VisitKept(seed, p, [&](bool kept) {
    plane.bits.push_back(kept ? 1 : 0);
    return true;
  });
  return plane;
}

std::optional<uint16_t> FindDocumentsSeed(const Problem& p) {
  const Documents& documents = *p.documents;
  return FindSeed([&](uint16_t seed) {
    return Makes(seed, p.batch, p.q_len, Side::kQuery, documents.query) &&
           Makes(seed, p.batch, p.kv_len, Side::kKey, documents.key);
  });
}

std::optional<uint16_t> FindKeepSeed(const Problem& p) {
  return FindSeed([&](uint16_t seed) {
    size_t at = 0;
    return VisitKept(seed, p, [&](bool kept) { return kept == (p.dropout->keep.bits[at++] != 0); });
  });
}

}  // namespace attest
