#include "properties/harness/runner/calls_before.h"

#include <algorithm>
#include <utility>

#include "properties/harness/case/shrink.h"
#include "properties/harness/case/slice.h"

namespace attest {
namespace {

// Query heads go with their kv head.
constexpr Axis kAxes[] = {Axis::kBatch, Axis::kKvHeads, Axis::kQLen,
                          Axis::kKvLen, Axis::kHeadDim, Axis::kValueDim};

Case Keep(const Case& c, Axis axis, int64_t first, int64_t count) {
  const std::vector<int64_t> keep = IndexRange(first, count);
  return axis == Axis::kKvHeads ? SelectHeads(c, keep, c.problem.heads_per_kv_head())
                                : Select(c, axis, keep);
}

class Reduction {
 public:
  Reduction(const FailsFresh& fails, int64_t most_tries) : fails_(fails), left_(most_tries) {}

  std::optional<CallSequence> Run(const CallSequence& met) {
    auto shortest = ShortestEnd(met);
    if (!shortest) return std::nullopt;
    sequence_ = std::move(*shortest);
    DropCalls();
    for (const Axis axis : kAxes) CutTogether(axis);
    for (size_t i = 0; i <= sequence_.before.size(); ++i) ShrinkOne(i);
    return sequence_;
  }

 private:
  bool Fails(const CallSequence& sequence) { return left_-- > 0 && fails_(sequence); }

  std::optional<CallSequence> ShortestEnd(const CallSequence& met) {
    const size_t all = met.before.size();
    for (size_t count = 0;; count = count == 0 ? 1 : std::min(2 * count, all)) {
      const auto first = met.before.end() - static_cast<int64_t>(count);
      CallSequence end{{first, met.before.end()}, met.c};
      if (Fails(end)) return end;
      if (count == all) return std::nullopt;
    }
  }

  bool Try(CallSequence smaller) {
    if (!Fails(smaller)) return false;
    sequence_ = std::move(smaller);
    return true;
  }

  void DropCalls() {
    for (size_t i = 0; i < sequence_.before.size() && sequence_.before.size() > 1;) {
      CallSequence fewer = sequence_;
      fewer.before.erase(fewer.before.begin() + static_cast<int64_t>(i));
      if (!Try(std::move(fewer))) ++i;
    }
  }

  // Kernels that keep something often keep it for as long as the sizes stay: all cases are cut alike.
  void CutTogether(Axis axis) {
    const int64_t size = SizeOf(sequence_.c.problem, axis);
    const bool are_alike = std::ranges::all_of(
        sequence_.before, [&](const Case& c) { return SizeOf(c.problem, axis) == size; });
    if (!are_alike || sequence_.before.empty()) return;
    while (CutOnce(axis)) {
    }
  }

  bool CutOnce(Axis axis) {
    const int64_t size = SizeOf(sequence_.c.problem, axis);
    if (size < 2) return false;
    const auto keep = [&](int64_t first, int64_t count) {
      CallSequence smaller;
      smaller.c = Keep(sequence_.c, axis, first, count);
      for (const Case& c : sequence_.before) smaller.before.push_back(Keep(c, axis, first, count));
      const bool is_valid =
          !Validate(smaller.c) && std::ranges::none_of(smaller.before, [](const Case& c) {
            return Validate(c).has_value();
          });
      return is_valid && Try(std::move(smaller));
    };
    const int64_t half = size / 2;
    return keep(0, half) || keep(half, size - half) || keep(0, size - 1) || keep(1, size - 1);
  }

  // Case `at` of the sequence by itself, the failing one being the last.
  void ShrinkOne(size_t at) {
    const auto with = [&](const Case& c) {
      CallSequence other = sequence_;
      (at < other.before.size() ? other.before[at] : other.c) = c;
      return other;
    };
    const Case whole = at < sequence_.before.size() ? sequence_.before[at] : sequence_.c;
    const auto shrunk = Shrink(
        whole, [&](const Case& c) { return Fails(with(c)); }, std::max<int64_t>(left_, 0));
    sequence_ = with(shrunk.smallest);
  }

  const FailsFresh& fails_;
  int64_t left_;  // tries
  CallSequence sequence_;
};

}  // namespace

std::optional<CallSequence> SmallestSequence(const CallSequence& met, const FailsFresh& fails,
                                             int64_t most_tries) {
  return Reduction(fails, most_tries).Run(met);
}

}  // namespace attest
