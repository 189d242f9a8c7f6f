#include "properties/harness/runner/strides_cause.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/case/offers.h"
#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/runner/run_case.h"

namespace attest {
namespace {

struct NamedTensor {
  Layout Layouts::*layout;
  std::string_view name;
};
constexpr NamedTensor kTensors[] = {
    {&Layouts::q, "q"}, {&Layouts::k, "k"}, {&Layouts::v, "v"}, {&Layouts::out, "out"}};

Case Contiguous(Case c, const Contract& contract) {
  const Layout plain = OfferedLayouts(contract).front();
  c.layouts = {plain, plain, plain, plain};
  return c;
}

StridesCause CauseOf(const std::vector<std::string>& tensors, bool is_far) {
  const std::string names = fmt::format("{}", fmt::join(tensors, ", "));
  if (is_far) {
    return {kNarrowOffset,
            fmt::format("offsets into {} are counted in 32 bits: nearer together, the same values "
                        "give the right result",
                        names)};
  }
  return {kStridesMisread,
          fmt::format("the strides of {} are not followed: contiguous, the same values give the "
                      "right result",
                      names)};
}

// The layouts that the case has itself: shrinking has left those alone that matter.
std::optional<StridesCause> CauseOfItsLayouts(const Property& property, const Case& smallest,
                                              const Case& contiguous, const Contract& contract,
                                              KernelSession& session) {
  if (!RunHolds(property, contiguous, contract, session)) return std::nullopt;
  std::vector<std::string> tensors;
  bool is_far = true;
  for (const auto& [tensor, name] : kTensors) {
    const Layout layout = smallest.layouts.*tensor;
    if (layout == contiguous.layouts.*tensor) continue;
    tensors.push_back(fmt::format("{} ({})", name, Name(layout)));
    is_far = is_far && IsFar(layout);
  }
  return CauseOf(tensors, is_far);
}

// A claim that lays its case out in other ways: one tensor in one layout at a time.
std::optional<StridesCause> CauseOfOneLayout(const Case& contiguous, const Contract& contract,
                                             KernelSession& session) {
  const Property* matches = FindProperty("equivalence.matches_reference");
  if (matches == nullptr || !RunHolds(*matches, contiguous, contract, session)) return std::nullopt;
  for (const auto& [tensor, name] : kTensors) {
    for (const Layout layout : OfferedLayouts(contract)) {
      Case c = contiguous;
      c.layouts.*tensor = layout;
      if (c.layouts == contiguous.layouts || !RunFails(*matches, c, contract, session)) continue;
      return CauseOf({fmt::format("{} ({})", name, Name(layout))}, IsFar(layout));
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<StridesCause> FindStridesCause(const Property& property, const Case& smallest,
                                             const Contract& contract, KernelSession& session) {
  static constexpr std::array<std::string_view, 2> kLayoutClaims = {
      "memory.strides_do_not_matter", "memory.far_strides_do_not_matter"};
  const Case contiguous = Contiguous(smallest, contract);
  if (Validate(contiguous)) return std::nullopt;
  if (smallest.layouts != contiguous.layouts) {
    return CauseOfItsLayouts(property, smallest, contiguous, contract, session);
  }
  if (std::ranges::find(kLayoutClaims, property.id) == kLayoutClaims.end()) return std::nullopt;
  return CauseOfOneLayout(contiguous, contract, session);
}

}  // namespace attest
