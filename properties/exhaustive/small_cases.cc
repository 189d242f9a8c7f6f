#include "properties/exhaustive/small_cases.h"

#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "properties/exhaustive/flags.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/case/random.h"

namespace attest {
namespace {

constexpr std::pair<int64_t, int64_t> kHeads[] = {{1, 1}, {2, 1}, {2, 2}};  // query heads, kv heads
constexpr int64_t kHeadForms = 3;
constexpr int64_t kBatches = 2;
constexpr int64_t kOffsets = 7;  // -3 .. 3
constexpr int64_t kSides = 4;    // open, 0, 1, 2

// One plane of queries and keys.
struct Plane {
  int64_t q_len = 0, kv_len = 0;

  // All patterns of bits, and no mask.
  int64_t Masks() const { return (int64_t{1} << (q_len * kv_len)) + 1; }
  // 0 .. kv_len, and no lengths.
  int64_t Lengths() const { return kv_len + 2; }
  int64_t Cases() const {
    return Masks() * Lengths() * kHeadForms * kBatches * 2 * kOffsets * kSides * kSides;
  }
};

template <typename Visitor>
void ForEachPlane(const SmallScope& scope, Visitor&& visit) {
  for (int64_t q_len = 0; q_len <= scope.max_len; ++q_len)
    for (int64_t kv_len = 0; kv_len <= scope.max_len; ++kv_len) visit(Plane{q_len, kv_len});
}

// Takes a number apart, digit by digit, each with a base of its own.
class Digits {
 public:
  explicit Digits(int64_t number) : rest_(number) {}
  int64_t Next(int64_t base) {
    const int64_t digit = rest_ % base;
    rest_ /= base;
    return digit;
  }

 private:
  int64_t rest_;
};

std::optional<int64_t> Side(int64_t digit) {
  return digit == 0 ? std::nullopt : std::optional(digit - 1);
}

// The bits of `number`, key by key; complemented in the second batch item.
BitPlane MaskOf(const Plane& plane, int64_t batch, int64_t number) {
  BitPlane mask;
  mask.shape = {batch, 1, plane.q_len, plane.kv_len};
  if (batch == 1) mask.rank = 2;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t n = 0; n < plane.q_len * plane.kv_len; ++n) {
      mask.bits.push_back(static_cast<uint8_t>(((number >> n) ^ b) & 1));
    }
  }
  return mask;
}

// A value for the first batch item and one for the second, if there is one.
std::vector<int64_t> ForItems(int64_t batch, int64_t first, int64_t second) {
  return batch == 1 ? std::vector<int64_t>{first} : std::vector<int64_t>{first, second};
}

// The swept part of a case: everything but the flags.
Problem SweptProblem(const Plane& plane, int64_t number) {
  Digits digits(number);
  Problem p;
  p.q_len = plane.q_len;
  p.kv_len = plane.kv_len;
  p.window.left = Side(digits.Next(kSides));
  p.window.right = Side(digits.Next(kSides));
  p.causal = digits.Next(2) != 0;
  const int64_t offset = digits.Next(kOffsets) - kOffsets / 2;
  std::tie(p.q_heads, p.kv_heads) = kHeads[digits.Next(kHeadForms)];
  p.batch = 1 + digits.Next(kBatches);
  const int64_t length = digits.Next(plane.Lengths());
  const int64_t mask = digits.Next(plane.Masks());
  if (offset != 0) p.diagonal_offset = ForItems(p.batch, offset, -offset);
  if (length <= p.kv_len) p.key_lengths = ForItems(p.batch, length, p.kv_len - length);
  if (mask < plane.Masks() - 1) p.mask = MaskOf(plane, p.batch, mask);
  return p;
}

// Drawn by a hash, so that no row keeps step with an option. One case in eight has packed
// sequences: most masks mean the same to them.
const FlagRow& RowFor(int64_t number) {
  const uint64_t hash = MixBits(static_cast<uint64_t>(number));
  const auto& rows = hash % 8 == 0 ? PackedFlagRows() : FlagRows();
  return rows[(hash >> 8) % rows.size()];
}

}  // namespace

int64_t CountSmallCases(const SmallScope& scope) {
  int64_t count = 0;
  ForEachPlane(scope, [&](const Plane& plane) { count += plane.Cases(); });
  return count;
}

Case SmallCase(const SmallScope& scope, int64_t number) {
  Plane found;
  int64_t within = -1, first = 0;
  ForEachPlane(scope, [&](const Plane& plane) {
    if (number >= first && number < first + plane.Cases()) {
      found = plane;
      within = number - first;
    }
    first += plane.Cases();
  });
  const FlagRow& row = RowFor(number);
  Case c;
  c.problem = SweptProblem(found, within);
  ApplyFlags(row, c);
  if (!LooksAtDiagonal(c.problem)) c.problem.diagonal_offset.clear();
  c.origin = fmt::format("small case {}: {}", number, Describe(row));
  return c;
}

int64_t ForEachSmallCase(const SmallScope& scope, const std::function<bool(const Case&)>& visit) {
  const int64_t all = CountSmallCases(scope);
  int64_t visited = 0;
  for (int64_t number = scope.shard * scope.stride; number < all;
       number += scope.stride * scope.shards) {
    ++visited;
    if (!visit(SmallCase(scope, number))) break;
  }
  return visited;
}

}  // namespace attest
