// Memory: the kernel reads its inputs, writes its outputs, and touches nothing else. The sandbox
// does the watching on every call of every property; here are the calls made for it.
#include <algorithm>
#include <array>

#include "properties/derive.h"
#include "properties/harness/case/offers.h"
#include "properties/harness/judge/compare.h"

namespace attest {
namespace {

Derived AtBothEnds(const Case& original, const Contract&) {
  Case end = original, begin = original;
  end.placement = Placement::kEnd;
  begin.placement = Placement::kBegin;
  end.problem.want_lse = begin.problem.want_lse = true;
  end.problem.want_weights = begin.problem.want_weights = true;
  return Of(std::move(end), std::move(begin));
}

// The runner has failed every call that read, wrote or left unwritten what it should not have.
Verdict JudgeNoFault(const Evidence& evidence) {
  const Problem& p = evidence.cases[0].problem;
  return Pass(p.batch * p.q_heads * p.q_len * static_cast<int64_t>(evidence.cases.size()));
}

std::string NeedsStrides(const Contract& c) {
  return OfferedLayouts(c).size() > 1 ? "" : "the contract takes one layout only";
}

// K and V with all heads equal, as a layout that has one address for them needs it.
Case WithEqualHeads(const Case& original) {
  Case c = AsLiteral(original);
  for (const DataTensor tensor : {DataTensor::kK, DataTensor::kV}) {
    const Array& array = c.literals.at(tensor);
    const std::vector<int64_t> first(static_cast<size_t>(array.shape[1]), 0);
    c.literals[tensor] = SelectArray(array, 1, first);
  }
  return c;
}

// One tensor at a time in another layout, and all of them.
Derived ContiguousAndStrided(const Case& original, const Contract& contract) {
  Draw draw = DrawFor(original, 0x57);
  const std::vector<Layout> offered = OfferedLayouts(contract);
  Case plain = AsLiteral(original);
  plain.layouts = {offered.front(), offered.front(), offered.front(), offered.front()};
  std::vector<Layout> others(offered.begin() + 1, offered.end());
  Case one = plain, all = plain;
  const std::array<Layout*, 4> single = {&one.layouts.q, &one.layouts.k, &one.layouts.v,
                                         &one.layouts.out};
  *single[static_cast<size_t>(draw.Below(4))] = draw.Pick(others);
  all.layouts = {draw.Pick(others), draw.Pick(others), draw.Pick(others), draw.Pick(others)};
  return Of(std::move(plain), std::move(one), std::move(all));
}

std::string NeedsFarStrides(const Contract& c) {
  if (c.strides == Strides::kDense) return "the contract takes no strides";
  return c.far_strides ? ""
                       : "the contract takes no far strides, or the kernel's worker maps no views";
}

// All tensors near, and as the contract's far layouts have them.
Derived NearAndFar(const Case& original, const Contract& contract) {
  const std::vector<Layout> offered = OfferedLayouts(contract);
  const Layout near = offered.front();
  Case plain = AsLiteral(original);
  plain.layouts = {near, near, near, near};
  std::vector<Case> cases = {plain};
  for (const Layout layout : offered) {
    if (!IsFar(layout)) continue;
    cases.push_back(plain);
    cases.back().layouts = {layout, layout, layout, layout};
  }
  return Of(std::move(cases));
}

std::string NeedsAnyStrides(const Contract& c) {
  return c.strides == Strides::kAny ? "" : "the contract takes no stride of zero";
}

// Every head at one address, stride 0, against a copy for each.
Derived RepeatedAndSharedHeads(const Case& original, const Contract& contract) {
  Case repeated = WithEqualHeads(original);
  repeated.layouts.k = repeated.layouts.v = OfferedLayouts(contract).front();
  Case shared = repeated;
  shared.layouts.k = shared.layouts.v = Layout::kSharedHead;
  // Not through Of, which lets heads share an address in all cases or in none.
  return {{repeated, shared}, ""};
}

Verdict JudgeShared(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kLayout);
  return SameResult(evidence, 0, 1, "heads at one address give another answer than copies of them",
                    options);
}

Verdict JudgeStrides(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kLayout);
  constexpr std::string_view kWhy = "the result depends on how the tensors lie in memory";
  return Worst(SameResult(evidence, 0, 1, kWhy, options),
               SameResult(evidence, 0, 2, kWhy, options));
}

Verdict JudgeFar(const Evidence& evidence) {
  RelationOptions options;
  options.exact = evidence.contract.Promises(Invariance::kLayout);
  constexpr std::string_view kWhy = "the result depends on how far apart the tensors' elements lie";
  Verdict verdict = SameResult(evidence, 0, 1, kWhy, options);
  if (evidence.cases.size() > 2)
    verdict = Worst(verdict, SameResult(evidence, 0, 2, kWhy, options));
  return verdict;
}

std::string NeedsZeroSizes(const Contract& c) {
  return c.Has(Feature::kZeroSizes) ? "" : "the contract offers no sizes of zero";
}

Derived WithAZeroSize(const Case& original, const Contract& contract) {
  std::vector<Axis> axes = {Axis::kBatch, Axis::kQLen, Axis::kKvLen};
  if (contract.Has(Feature::kValueDim)) {
    axes.push_back(Axis::kHeadDim);
    axes.push_back(Axis::kValueDim);
  }
  const Axis axis = DrawFor(original, 0x20).Pick(axes);
  Case c = AsLiteral(original);
  if (!c.problem.scale) c.problem.scale = 1.0;  // 1 / sqrt(0) is no scale
  return Of(Realign(Select(c, axis, {}), contract));
}

Verdict JudgeZeroSize(const Evidence& evidence) {
  return MatchesReference(evidence, 0, "a size is zero");
}

constexpr std::array<Property, 5> kProperties = {{
    {"memory.stays_inside_its_tensors",
     "inputs untouched, every output element written, nothing beside them read or written",
     Exactness::kExact, Rung::kMemorySafe, "nothing", AlwaysSupported, AtBothEnds, JudgeNoFault},
    {"memory.strides_do_not_matter",
     "strided, permuted and gapped tensors give what contiguous ones give", Exactness::kBitwise,
     Rung::kWithinBound, "more than one layout", NeedsStrides, ContiguousAndStrided, JudgeStrides},
    {"memory.far_strides_do_not_matter",
     "heads, and positions, that lie more than 2^31 elements apart give what near ones give",
     Exactness::kBitwise, Rung::kMemorySafe, "far_strides", NeedsFarStrides, NearAndFar, JudgeFar},
    {"memory.heads_may_share_an_address",
     "K and V with a head stride of zero give what copies for each head give", Exactness::kBitwise,
     Rung::kWithinBound, "strides any", NeedsAnyStrides, RepeatedAndSharedHeads, JudgeShared},
    {"memory.zero_sizes_are_handled", "batch, lengths and dims of zero give what is due",
     Exactness::kBound, Rung::kWithinBound, "zero_sizes", NeedsZeroSizes, WithAZeroSize,
     JudgeZeroSize},
}};

}  // namespace

std::span<const Property> MemoryProperties() {
  return kProperties;
}

}  // namespace attest
