// Symmetry: attention knows no order of keys, queries, heads or batch items beyond what masks say, so
// reordering them reorders the result; and keys given twice weigh twice. Has caught: masks read in
// another item's or head's place, online softmax that depends on where the maximum stands.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "properties/derive.h"
#include "properties/features.h"
#include "properties/judging.h"

namespace attest {
namespace {

std::vector<int64_t> Shuffled(const Case& c, uint64_t salt, int64_t count) {
  Draw draw = DrawFor(c, salt);
  std::vector<int64_t> order = IndexRange(0, count);
  for (int64_t n = count - 1; n > 0; --n) {
    std::swap(order[static_cast<size_t>(n)], order[static_cast<size_t>(draw.Below(n + 1))]);
  }
  return order;
}

// Where index i of the first call has gone.
int64_t PlaceOf(const std::vector<int64_t>& order, int64_t index) {
  return std::ranges::find(order, index) - order.begin();
}

// The rows or keys `order` in that order, any of them more than once. Nothing may depend on where
// they stand, which is what Select wants ascending order for.
Case Gather(const Case& c, Axis axis, const std::vector<int64_t>& order) {
  return Select(c, axis, order);
}

// --- Keys ---

Derived KeysReordered(const Case& original, const Contract& contract) {
  const Case c = AsLiteral(WithoutKeyOutputs(WithoutPositions(original, contract)));
  if (c.problem.kv_len < 2) return NotApplicable("fewer than two keys");
  return Of(c, Gather(c, Axis::kKvLen, Shuffled(c, 0x9E41, c.problem.kv_len)));
}

Verdict JudgeKeys(const Evidence& evidence) {
  return SameResult(evidence, 0, 1, "the result depends on the order of the keys");
}

Derived KeysTwice(const Case& original, const Contract& contract) {
  Case c = WithoutKeyOutputs(WithoutPositions(original, contract));
  c.problem.sinks.reset();  // they are not doubled
  c.problem.want_lse = true;
  c = AsLiteral(c);
  const int64_t kv_len = c.problem.kv_len;
  // 512: what a long case would add is time.
  if (kv_len == 0 || kv_len > 512) return NotApplicable("no keys, or more than 512");
  const int64_t limit = contract.limits.max_kv_len;
  if (limit > 0 && 2 * kv_len > limit) return NotApplicable("twice as many keys pass the limit");
  const bool side_by_side = DrawFor(c, 0x2D).Percent(50);
  std::vector<int64_t> order;
  for (int64_t n = 0; n < 2 * kv_len; ++n) {
    order.push_back(side_by_side ? n / 2 : n % kv_len);
  }
  return Of(c, Gather(c, Axis::kKvLen, order));
}

std::optional<Verdict> JudgeDoubledRow(const Evidence& evidence, const Row& row) {
  constexpr std::string_view kWhy = "every key was given twice";
  const Problem& p = evidence.cases[0].problem;
  for (int64_t d = 0; d < p.value_dim; ++d) {
    const Seen once = OutOf(evidence, 0, row, d), twice = OutOf(evidence, 1, row, d);
    if (std::isnan(once.due)) continue;
    if (auto failed = Expect(evidence, 1, "out", row, d, twice.got, once.got,
                             once.bound + twice.bound, kWhy, TheFirstCall())) {
      return failed;
    }
  }
  if (evidence.outcomes[0].lse.empty()) return std::nullopt;
  const Seen once = LseOf(evidence, 0, row), twice = LseOf(evidence, 1, row);
  const double due = once.got + std::log(2.0);
  // The sum is taken here in double.
  const double here = 0x1p-52 * (std::abs(due) + 1);
  return Expect(evidence, 1, "lse", row, 0, twice.got, due, once.bound + twice.bound + here,
                "every key was given twice, so log 2 was due on top", OtherCalls({0}));
}

Verdict JudgeDoubled(const Evidence& evidence) {
  return JudgeOrdinaryRows(evidence,
                           [&](const Row& row) { return JudgeDoubledRow(evidence, row); });
}

// --- Batch items, heads, queries ---

constexpr uint64_t kBatchSalt = 0xBA7C, kHeadSalt = 0x4EAD, kQuerySalt = 0x0E47;

Derived ItemsReordered(const Case& original, const Contract&) {
  const Case c = AsLiteral(original);
  if (c.problem.batch < 2) return NotApplicable("one batch item");
  return Of(c, Select(c, Axis::kBatch, Shuffled(c, kBatchSalt, c.problem.batch)));
}

Verdict JudgeItems(const Evidence& evidence) {
  const Case& c = evidence.cases[0];
  const std::vector<int64_t> order = Shuffled(c, kBatchSalt, c.problem.batch);
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kBatch);
  options.to_b = [&](const std::array<int64_t, 4>& i) {
    return std::array<int64_t, 4>{PlaceOf(order, i[0]), i[1], i[2], i[3]};
  };
  return SameResult(evidence, 0, 1, "the result depends on the order of the batch items", options);
}

Derived HeadsReordered(const Case& original, const Contract&) {
  const Case c = AsLiteral(original);
  if (c.problem.kv_heads < 2) return NotApplicable("one kv head");
  const std::vector<int64_t> order = Shuffled(c, kHeadSalt, c.problem.kv_heads);
  return Of(c, SelectHeads(c, order, c.problem.heads_per_kv_head()));
}

Verdict JudgeHeads(const Evidence& evidence) {
  const Case& c = evidence.cases[0];
  const int64_t group = c.problem.heads_per_kv_head();
  const std::vector<int64_t> order = Shuffled(c, kHeadSalt, c.problem.kv_heads);
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kHeads);
  options.to_b = [&](const std::array<int64_t, 4>& i) {
    const int64_t head = PlaceOf(order, i[1] / group) * group + i[1] % group;
    return std::array<int64_t, 4>{i[0], head, i[2], i[3]};
  };
  return SameResult(evidence, 0, 1, "the result depends on the order of the head groups", options);
}

Derived QueriesReordered(const Case& original, const Contract& contract) {
  Case c = WithoutPositions(original, contract);
  c.problem.query_lengths.reset();  // the padding would move
  c = AsLiteral(c);
  if (c.problem.q_len < 2) return NotApplicable("fewer than two queries");
  return Of(c, Gather(c, Axis::kQLen, Shuffled(c, kQuerySalt, c.problem.q_len)));
}

Verdict JudgeQueries(const Evidence& evidence) {
  const Case& c = evidence.cases[0];
  const std::vector<int64_t> order = Shuffled(c, kQuerySalt, c.problem.q_len);
  RelationOptions options;
  // Where a query's bits do not depend on how many there are, they do not on which those are.
  options.exact = evidence.contract.Promises(Invariance::kQLen);
  options.to_b = [&](const std::array<int64_t, 4>& i) {
    return std::array<int64_t, 4>{i[0], i[1], PlaceOf(order, i[2]), i[3]};
  };
  return SameResult(evidence, 0, 1, "the result depends on the order of the queries", options);
}

constexpr std::array<Property, 5> kProperties = {{
    {"symmetry.the_order_of_keys_does_not_matter",
     "reordering keys with their values and masks changes nothing", Exactness::kBound,
     Rung::kWithinBound, "nothing", AlwaysSupported, KeysReordered, JudgeKeys},
    {"symmetry.keys_given_twice_add_log_two",
     "every key given twice leaves the output and adds log 2 to the lse", Exactness::kBound,
     Rung::kWithinBound, "nothing", AlwaysSupported, KeysTwice, JudgeDoubled},
    {"symmetry.the_order_of_queries_does_not_matter",
     "reordering queries with their masks reorders the rows", Exactness::kBound, Rung::kWithinBound,
     "nothing", AlwaysSupported, QueriesReordered, JudgeQueries},
    {"symmetry.the_order_of_heads_does_not_matter", "reordering head groups reorders the result",
     Exactness::kBitwise, Rung::kWithinBound, "nothing", AlwaysSupported, HeadsReordered,
     JudgeHeads},
    {"symmetry.the_order_of_batch_items_does_not_matter",
     "reordering batch items reorders the result", Exactness::kBitwise, Rung::kBatchInvariant,
     "nothing", AlwaysSupported, ItemsReordered, JudgeItems},
}};

}  // namespace

std::span<const Property> SymmetryProperties() {
  return kProperties;
}

}  // namespace attest
