#include "properties/harness/judge/present.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/judge/compare.h"
#include "properties/harness/judge/explain/explain.h"

namespace attest {
namespace {

using Index = std::array<int64_t, 4>;  // batch, kv head, key, lane

// One of the two outputs, with what is due there.
struct Copy {
  std::string_view name;
  const Array& due;
  const Array& other;  // what is due in the other one
  const Array& got;
};

Index IndexAt(const Shape4& s, size_t n) {
  const auto at = static_cast<int64_t>(n);
  return {at / (s[3] * s[2] * s[1]), at / (s[3] * s[2]) % s[1], at / s[3] % s[2], at % s[3]};
}

// Another order of the right values: what stands at an index of the present is from there.
struct Order {
  std::string_view phrase;
  std::function<Index(const Index&)> source;
  bool of_other = false;  // keys for values, values for keys
  // It is the order of the first along this axis alone, and most of each of the others is wrong.
  std::optional<size_t> first_along{};
};

std::vector<Order> Orders(const Shape4& s, int64_t past) {
  const int64_t heads = s[1], keys = s[2];
  const auto flat = [=](const Index& i) { return i[1] * keys + i[2]; };
  std::vector<Order> orders = {
      {"the present is written as [kv_len, kv_heads], not [kv_heads, kv_len]",
       [=](const Index& i) {
         return Index{i[0], flat(i) % heads, flat(i) / heads, i[3]};
       }},
      {"every kv head's present is that of head 0",
       [](const Index& i) {
         return Index{i[0], 0, i[2], i[3]};
       }},
      {"every batch item's present is that of item 0",
       [](const Index& i) {
         return Index{0, i[1], i[2], i[3]};
       }},
      {"the presents of keys and of values are swapped", [](const Index& i) { return i; }, true}};
  const auto first_alone = [&](size_t axis, std::string_view written_over, std::string_view alone) {
    const int64_t last = s[axis] - 1;
    if (last < 1) return;
    orders.push_back({written_over,
                      [axis, last](Index i) {
                        i[axis] = last;
                        return i;
                      },
                      false, axis});
    orders.push_back({alone, [](const Index& i) { return i; }, false, axis});
  };
  first_alone(1, "all kv heads are written to the place of head 0, one over the other",
              "kv head 0 alone is written to its place");
  first_alone(0, "all batch items are written to the place of item 0, one over the other",
              "batch item 0 alone is written to its place");
  if (past > 0 && past < keys) {
    orders.push_back({"the new keys stand before those of the past", [=](const Index& i) {
                        return Index{i[0], i[1], (i[2] + past) % keys, i[3]};
                      }});
  }
  return orders;
}

// Of a present that holds one number throughout every order says the same.
bool HasSeveralValues(const Array& array) {
  return std::ranges::any_of(array.values,
                             [&](double x) { return !SameBits(x, array.values.front()); });
}

// Whether most of each but the first along the axis is wrong.
bool OthersAreWrong(const Copy& copy, size_t axis) {
  std::vector<int64_t> more_wrong(static_cast<size_t>(copy.got.shape[axis]), 0);
  for (size_t n = 0; n < copy.got.values.size(); ++n) {
    const auto at = static_cast<size_t>(IndexAt(copy.got.shape, n)[axis]);
    more_wrong[at] += SameBits(copy.got.values[n], copy.due.values[n]) ? -1 : 1;
  }
  return std::all_of(more_wrong.begin() + 1, more_wrong.end(), [](int64_t n) { return n > 0; });
}

bool Fits(const Order& order, const Copy& copy) {
  const Array& from = order.of_other ? copy.other : copy.due;
  if (from.shape != copy.got.shape) return false;
  if (order.first_along && !OthersAreWrong(copy, *order.first_along)) return false;
  for (size_t n = 0; n < copy.got.values.size(); ++n) {
    const Index at = IndexAt(copy.got.shape, n);
    if (order.first_along && at[*order.first_along] > 0) continue;
    const Index i = order.source(at);
    if (!SameBits(copy.got.values[n], from.At(i[0], i[1], i[2], i[3]))) return false;
  }
  return true;
}

void Explain(const Copy& copy, const Storage& storage, Verdict& verdict) {
  if (!HasSeveralValues(copy.got)) return;
  for (const Order& order : Orders(copy.due.shape, storage.past)) {
    if (!Fits(order, copy)) continue;
    verdict.cause_class = kPresentMisplaced;
    verdict.likely_cause = order.phrase;
    verdict.sentence += fmt::format("; {}", order.phrase);
    return;
  }
}

std::optional<Verdict> JudgeCopy(const Copy& copy, const Storage& storage) {
  for (size_t n = 0; n < copy.got.values.size(); ++n) {
    const double due = copy.due.values[n], got = copy.got.values[n];
    if (SameBits(got, due)) continue;
    const Index i = IndexAt(copy.due.shape, n);
    Verdict v;
    v.kind = VerdictKind::kFail;
    v.cause = CauseOf(got, due);
    v.output = copy.name;
    v.witness = Witness{i, due, got, 0};
    v.sentence = fmt::format(
        "{}[batch {}, kv head {}, key {}, lane {}] is {:.9g} where {:.9g} went in: the present is "
        "not {}",
        copy.name, i[0], i[1], i[2], i[3], got, due,
        storage.past > 0 ? "past and new together" : "the keys and values of a first call");
    Explain(copy, storage, v);
    return v;
  }
  return std::nullopt;
}

}  // namespace

Verdict JudgePresent(const Case& c, const Inputs& inputs, const Outcome& outcome) {
  const Copy copies[] = {{"present_k", inputs.k, inputs.v, outcome.present_k},
                         {"present_v", inputs.v, inputs.k, outcome.present_v}};
  for (const Copy& copy : copies) {
    if (auto failed = JudgeCopy(copy, c.storage)) return *std::move(failed);
  }
  Verdict passed;
  passed.rows = c.problem.batch * c.problem.kv_heads * c.problem.kv_len;
  return passed;
}

}  // namespace attest
