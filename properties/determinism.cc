// Determinism: the same call gives the same answer, whatever was called before and whatever shares
// the batch. As promised: where the contract promises no bits, a difference within the bounds is
// MARGINAL. Has caught: tt-metal#40880 (program of the first call reused), xformers#66 (stale
// mask).
#include <array>

#include "properties/derive.h"
#include "properties/harness/judge/compare.h"

namespace attest {
namespace {

Derived Twice(const Case& c, const Contract&) {
  return Of({c, c});
}

bool SharesHeads(const Case& c, DataTensor tensor) {
  const Layout layout = tensor == DataTensor::kK   ? c.layouts.k
                        : tensor == DataTensor::kV ? c.layouts.v
                                                   : Layout::kBhsd;
  return layout == Layout::kSharedHead;
}

// Another call in between, of other sizes and data.
Derived WithACallBetween(const Case& c, const Contract&) {
  Case other = AsLiteral(c);
  Draw draw = DrawFor(c, 0xDE);
  for (const Axis axis : {Axis::kQLen, Axis::kKvLen, Axis::kBatch}) {
    const int64_t size = SizeOf(other.problem, axis);
    if (size > 1) other = Select(other, axis, IndexRange(draw.Below(2), size - 1));
  }
  for (auto& [tensor, array] : other.literals) {
    if (tensor == DataTensor::kBias || SharesHeads(other, tensor)) continue;
    for (double& x : array.values) {
      x = RoundedFor(other.problem, tensor, static_cast<double>(draw.Between(-3, 3)));
    }
  }
  return Of({c, other, c});
}

Verdict JudgeRerun(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kRerun);
  const size_t last = evidence.cases.size() - 1;
  return SameResult(evidence, 0, last,
                    last == 1 ? "the same call gave another answer the second time"
                              : "the same call gave another answer after a different call",
                    options);
}

Derived BatchAndItem(const Case& original, const Contract&) {
  const Case c = AsLiteral(original);
  if (c.problem.batch < 2) return NotApplicable("one batch item");
  const int64_t item = DrawFor(c, 0xBA).Below(c.problem.batch);
  return Of({c, Select(c, Axis::kBatch, {item})});
}

Verdict JudgeItem(const Evidence& evidence) {
  const int64_t batch = evidence.cases[0].problem.batch;
  const int64_t item = DrawFor(evidence.cases[0], 0xBA).Below(batch);
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kBatch);
  options.rows = [=](const Row& row) { return row.batch == item; };
  options.to_b = [](const std::array<int64_t, 4>& i) {
    return std::array<int64_t, 4>{0, i[1], i[2], i[3]};
  };
  return SameResult(evidence, 0, 1, "a batch item alone gives another answer than in its batch",
                    options);
}

constexpr std::array<Property, 3> kProperties = {{
    {"determinism.a_rerun_gives_the_same_bits", "the same call twice gives the same bits",
     Exactness::kBitwise, Rung::kDeterministic, "nothing", AlwaysSupported, Twice, JudgeRerun},
    {"determinism.call_order_does_not_matter", "a call gives the same bits after a different call",
     Exactness::kBitwise, Rung::kDeterministic, "nothing", AlwaysSupported, WithACallBetween,
     JudgeRerun},
    {"determinism.a_batch_item_alone_equals_itself_in_the_batch",
     "each batch item gives the same result in a call of its own", Exactness::kBound,
     Rung::kBatchInvariant, "nothing", AlwaysSupported, BatchAndItem, JudgeItem},
}};

}  // namespace

std::span<const Property> DeterminismProperties() {
  return kProperties;
}

}  // namespace attest
