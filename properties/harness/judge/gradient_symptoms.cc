#include "properties/harness/judge/gradient_symptoms.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "impl/attention/visibility.h"
#include "impl/reference/gradient_row.h"
#include "properties/harness/judge/gradients.h"

namespace attest {
namespace {

class Symptoms {
 public:
  Symptoms(const Evidence& evidence, size_t index)
      : evidence_(evidence),
        p_(evidence.cases[index].problem),
        inputs_(evidence.oracle.InputsOf(index)),
        reference_(evidence.oracle.ReferenceOf(index)),
        outcome_(evidence.outcomes[index]) {}

  Explanation Find() const {
    if (Explanation found = FromNowhere(); !found.phrase.empty()) return found;
    if (p_.head_dim == 0 || outcome_.dq.empty()) return {};
    // Rows that see no key hide all of them: what is hidden from them comes first.
    if (AreTheLostRows([&](const Row& row) { return HidesNonFinite(row); })) {
      return {"hidden-nonfinite",
              "the non-finite value of a hidden key came through in the backward pass"};
    }
    const auto sees_none = [&](const Row& row) { return SeesNoKey(p_, row); };
    if (AreTheLostRows(sees_none)) {
      return {"empty-row", "in the backward pass rows that see no key are not finite"};
    }
    const double floor = LseFloor();
    if (AreTheLostRows([&](const Row& row) { return LseOf(row) < floor; })) {
      return {
          "padded-keys-attended",
          fmt::format("as if in the backward pass a key beyond the last, with a score of 0, were "
                      "weighed by exp(0 - lse), which overflows in rows with an lse below {:.3g}",
                      floor)};
    }
    if (p_.softcap > 0 && AreTheLostRows([&](const Row& row) { return HidesSome(row); })) {
      return {
          "hidden-before-softcap",
          "as if in the backward pass the slope of the softcap were taken of hidden scores, too, "
          "which are infinite"};
    }
    return {};
  }

 private:
  // Where dout is 0 everywhere all that a backward pass makes of it is 0, or not finite.
  Explanation FromNowhere() const {
    if (std::ranges::any_of(inputs_.dout.values, [](double x) { return x != 0; })) return {};
    for (const GradientOutput& output : kGradientOutputs) {
      const Array& observed = outcome_.*output.observed;
      const auto has_come = [](double x) { return std::isfinite(x) && x != 0; };
      if (std::ranges::any_of(observed.values, has_come)) {
        return {"gradient-uninitialised",
                fmt::format("dout is 0 everywhere, and {} is not: what it holds is not made of "
                            "dout (memory that "
                            "was not cleared, or another tensor in its place)",
                            output.name)};
      }
    }
    return {};
  }

  // Whether the rows of dq that are not finite, and there are some, are those that `is_it` picks.
  template <typename Predicate>
  bool AreTheLostRows(Predicate is_it) const {
    bool has_lost = false, agrees = true;
    ForEachRow(p_, [&](const Row& row) {
      if (IsPaddedQuery(p_, row)) return;
      const double* dq = LineOf(outcome_.dq, row.batch, row.head, row.query);
      const bool is_lost =
          !std::all_of(dq, dq + p_.head_dim, [](double x) { return std::isfinite(x); });
      has_lost = has_lost || is_lost;
      agrees = agrees && is_lost == is_it(row);
    });
    return has_lost && agrees;
  }

  double LseOf(const Row& row) const {
    const double lse = reference_.lse.At(row.batch, row.head, row.query, 0);
    return SeesNoKey(p_, row) ? std::numeric_limits<double>::infinity() : lse;
  }

  // Below it exp(-lse) overflows in the type that the kernel adds up in.
  double LseFloor() const {
    const DType type = evidence_.contract.NumericsOf(p_.dtype).accumulate;
    return -std::log(TraitsOf(type).max_finite);
  }

  template <typename Predicate>
  bool HidesKey(const Row& row, Predicate is_it) const {
    for (int64_t key = 0; key < p_.kv_len; ++key) {
      if (!Visible(p_, row, key) && is_it(key)) return true;
    }
    return false;
  }
  bool HidesSome(const Row& row) const {
    return !SeesNoKey(p_, row) && HidesKey(row, [](int64_t) { return true; });
  }
  bool HidesNonFinite(const Row& row) const {
    const int64_t kv_head = row.head / p_.heads_per_kv_head();
    return HidesKey(row, [&](int64_t key) {
      const double *k = LineOf(inputs_.k, row.batch, kv_head, key),
                   *v = LineOf(inputs_.v, row.batch, kv_head, key);
      const auto is_not_finite = [](double x) { return !std::isfinite(x); };
      return std::any_of(k, k + p_.head_dim, is_not_finite) ||
             std::any_of(v, v + p_.value_dim, is_not_finite);
    });
  }

  const Evidence& evidence_;
  const Problem& p_;
  const Inputs& inputs_;
  const Reference& reference_;
  const Outcome& outcome_;
};

}  // namespace

Explanation GradientSymptom(const Evidence& evidence, size_t index) {
  return Symptoms(evidence, index).Find();
}

}  // namespace attest
