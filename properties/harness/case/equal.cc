#include "properties/harness/case/equal.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace attest {
namespace {

bool SameOverride(const Override& a, const Override& b) {
  return a.tensor == b.tensor && a.index == b.index && SameValue(a.value, b.value);
}

bool SameArray(const Array& a, const Array& b) {
  return a.shape == b.shape && std::ranges::equal(a.values, b.values, SameValue);
}

bool SameScale(const std::optional<double>& a, const std::optional<double>& b) {
  return a.has_value() == b.has_value() && (!a || SameValue(*a, *b));
}

using PerHead = std::optional<std::vector<double>>;

bool SamePerHead(const PerHead& a, const PerHead& b) {
  return a.has_value() == b.has_value() && (!a || std::ranges::equal(*a, *b, SameValue));
}

}  // namespace

bool SameValue(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool SameComputation(const Case& a, const Case& b) {
  const auto same_literal = [](const auto& x, const auto& y) {
    return x.first == y.first && SameArray(x.second, y.second);
  };
  const auto shares = [](Layout layout) { return layout == Layout::kSharedHead; };
  return a.recipe == b.recipe && a.problem == b.problem &&
         SameScale(a.problem.scale, b.problem.scale) &&
         SamePerHead(a.problem.alibi_slopes, b.problem.alibi_slopes) &&
         SamePerHead(a.problem.sinks, b.problem.sinks) &&
         shares(a.layouts.k) == shares(b.layouts.k) && shares(a.layouts.v) == shares(b.layouts.v) &&
         std::ranges::equal(a.overrides, b.overrides, SameOverride) &&
         std::ranges::equal(a.literals, b.literals, same_literal);
}

bool SameCase(const Case& a, const Case& b) {
  return a.storage == b.storage && a.layouts == b.layouts && a.placement == b.placement &&
         SameComputation(a, b);
}

}  // namespace attest
