// Determinism: the same call gives the same answer, whatever was called before, whatever shares the
// batch, however many threads compute it and whatever is computed at the same time. As promised: where
// the contract promises no bits, a difference within the bounds is MARGINAL. Has caught: tt-metal#40880
// (program of the first call reused), xformers#66 (stale mask). After: mini-sglang#103 and
// flashinfer#4476 (one buffer for calls in flight), llama.cpp#13438 (missing barriers).
#include <array>

#include <fmt/format.h>

#include "properties/derive.h"
#include "properties/harness/judge/compare.h"

namespace attest {
namespace {

Derived Twice(const Case& c, const Contract&) {
  return Of(c, c);
}

bool SharesHeads(const Case& c, DataTensor tensor) {
  const Layout layout = tensor == DataTensor::kK   ? c.layouts.k
                        : tensor == DataTensor::kV ? c.layouts.v
                                                   : Layout::kBhsd;
  return layout == Layout::kSharedHead;
}

// A call of other sizes and data, drawn by `salt`: of no zeros, so that each call shows what it makes of
// another's scale or data.
Case OtherCall(const Case& c, uint64_t salt) {
  Case other = AsLiteral(c);
  Draw draw = DrawFor(c, salt);
  for (const Axis axis : {Axis::kQLen, Axis::kKvLen, Axis::kBatch}) {
    const int64_t size = SizeOf(other.problem, axis);
    if (size > 1) other = Select(other, axis, IndexRange(draw.Below(2), size - 1));
  }
  for (auto& [tensor, array] : other.literals) {
    if (tensor == DataTensor::kBias || SharesHeads(other, tensor)) continue;
    for (double& x : array.values) {
      const int64_t size = draw.Between(1, 3);
      x = RoundedFor(other.problem, tensor, static_cast<double>(draw.Percent(50) ? size : -size));
    }
  }
  return other;
}

Derived WithACallBetween(const Case& c, const Contract&) {
  return Of(c, OtherCall(c, 0xDE), c);
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
  return Of(c, Select(c, Axis::kBatch, {item}));
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

// Rows go unevenly into each of them, and 7 is more than there often are.
constexpr std::array kThreadCounts = {2, 3, 7};

// The case as it is, then once for each thread count, 1 among them whatever the kernel was opened with.
Derived OverThreadCounts(const Case& c, const Contract&) {
  Derived derived = Of(std::vector<Case>(2 + kThreadCounts.size(), c));
  derived.settings = {{}, {.threads = 1}};
  for (const int threads : kThreadCounts) derived.settings.push_back({.threads = threads});
  return derived;
}

Verdict JudgeThreadCounts(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kThreads);
  Verdict verdict = Pass(0);
  for (size_t n = 0; n < kThreadCounts.size(); ++n) {
    const std::string what =
        fmt::format("{} threads give another answer than one", kThreadCounts[n]);
    verdict = Worst(verdict, SameResult(evidence, 1, 2 + n, what, options));
  }
  return verdict;
}

std::string NeedsConcurrentCalls(const Contract& contract) {
  return contract.concurrent_calls ? "" : "the contract does not promise concurrent calls";
}

// So many that two overlap on two cores, each with data, sizes and a scale of its own.
constexpr size_t kCallsAtOnce = 4;

// The calls one by one, then all at once. Calls of some microseconds overlap by chance alone, so that a
// pass says little of a single case and more of many; on one core it says next to nothing.
Derived AloneThenAtOnce(const Case& c, const Contract&) {
  std::vector<Case> cases = {c};
  for (size_t n = 1; n < kCallsAtOnce; ++n) {
    Case other = OtherCall(c, 0xC0 + n);
    other.problem.scale = c.problem.EffectiveScale() / static_cast<double>(n + 1);
    cases.push_back(std::move(other));
  }
  const std::vector<Case> again = cases;
  cases.insert(cases.end(), again.begin(), again.end());
  Derived derived = Of(std::move(cases));
  derived.settings.assign(kCallsAtOnce, {});
  derived.settings.insert(derived.settings.end(), kCallsAtOnce, {.at_once = true});
  return derived;
}

// What a race leaves looks like any fault, and like another one each time: no cause is sought.
Verdict JudgeAtOnce(const Evidence& whole) {
  Evidence evidence = whole;
  evidence.wants_cause = [](const Verdict&) { return false; };
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kRerun);
  Verdict verdict = Pass(0);
  for (size_t n = 0; n < kCallsAtOnce; ++n) {
    verdict = Worst(verdict,
                    SameResult(evidence, n, kCallsAtOnce + n,
                               "a call gives another answer while others are computed", options));
  }
  return verdict;
}

constexpr std::array<Property, 5> kProperties = {{
    {"determinism.a_rerun_gives_the_same_bits", "the same call twice gives the same bits",
     Exactness::kBitwise, Rung::kDeterministic, "nothing", AlwaysSupported, Twice, JudgeRerun},
    {"determinism.call_order_does_not_matter", "a call gives the same bits after a different call",
     Exactness::kBitwise, Rung::kDeterministic, "nothing", AlwaysSupported, WithACallBetween,
     JudgeRerun},
    {"determinism.the_thread_count_does_not_matter",
     "kernels created with 1, 2, 3 and 7 threads give the same bits", Exactness::kBitwise,
     Rung::kDeterministic, "a worker that hands on the thread count", AlwaysSupported,
     OverThreadCounts, JudgeThreadCounts},
    {"determinism.concurrent_calls_give_what_each_gives_alone",
     "calls made at the same time on one kernel give the bits that each gives alone",
     Exactness::kBitwise, Rung::kDeterministic, "concurrent_calls", NeedsConcurrentCalls,
     AloneThenAtOnce, JudgeAtOnce},
    {"determinism.a_batch_item_alone_equals_itself_in_the_batch",
     "each batch item gives the same result in a call of its own", Exactness::kBound,
     Rung::kBatchInvariant, "nothing", AlwaysSupported, BatchAndItem, JudgeItem},
}};

}  // namespace

std::span<const Property> DeterminismProperties() {
  return kProperties;
}

}  // namespace attest
