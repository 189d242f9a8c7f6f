#include "properties/harness/runner/storage_cause.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/case/equal.h"
#include "properties/harness/judge/explain/explain.h"
#include "properties/harness/runner/run_case.h"

namespace attest {
namespace {

std::string_view WordsFor(const Storage& storage) {
  if (storage.past > 0) return "past keys are";
  if (storage.first_call == FirstCall::kPastEmpty) return "a past of no keys is";
  if (storage.first_call == FirstCall::kPastAbsent) return "a first call, with no past yet, is";
  if (storage.page_size > 0) return "keys in pages are";
  return storage.ring ? "keys in a ring are" : "packed sequences are";
}

// The same case where every sequence is as long as the longest, or as the shortest that is not empty: where all are
// empty nothing is read.
Case WithEqualLengths(Case c, bool longest) {
  Problem& p = c.problem;
  for (auto* lengths : {&p.key_lengths, &p.query_lengths}) {
    if (!lengths->has_value() || (*lengths)->empty()) continue;
    const auto [least, most] = std::ranges::minmax(**lengths);
    std::ranges::fill(**lengths, longest ? most : std::clamp<int64_t>(1, least, most));
  }
  return c;
}

// What must change beside the storage for the result to be right, which says more of what is misread. nullopt where
// neither the size of pages nor equal lengths mend it.
std::optional<StorageCause> NarrowerCause(const Property& claim, const Case& stored, bool is_number,
                                          const Contract& contract, KernelSession& session) {
  const auto holds = [&](const Case& c) {
    return !SameCase(c, stored) && !Validate(c) && RunHolds(claim, c, contract, session);
  };
  const std::string_view stored_so = WordsFor(stored.storage);
  Case pages_of_one = stored;
  pages_of_one.storage.page_size = std::min<int64_t>(stored.storage.page_size, 1);
  // Before the lengths: where all are equal there may be no slot behind a last key either.
  if (holds(pages_of_one)) {
    // NaN comes from free slots, for nothing else that is stored holds any.
    if (is_number) {
      return StorageCause{
          kStorageMisread,
          fmt::format("{} misread: in pages of one key the same values give the right result",
                      stored_so)};
    }
    return StorageCause{
        "padded-keys-attended",
        "slots behind the last key of a sequence take part: in pages of one key the same values "
        "give the right result"};
  }
  if (holds(WithEqualLengths(stored, /*longest=*/true)) &&
      holds(WithEqualLengths(stored, /*longest=*/false))) {
    if (stored.storage.packed) {
      return StorageCause{
          kStorageMisread,
          fmt::format("{} misread where lengths differ: with equal lengths the result is right",
                      stored_so)};
    }
    return StorageCause{
        "lengths-mistaken",
        fmt::format("{} misread where lengths differ, as if another sequence's length were taken: "
                    "with equal lengths the result is right",
                    stored_so)};
  }
  return std::nullopt;
}

}  // namespace

std::optional<StorageCause> FindStorageCause(const Property& property, const Finding& finding,
                                             const Contract& contract, KernelSession& session) {
  // Of a claim that stores its case in another way, the case that fails is one of its own.
  const Property* claim =
      finding.derived ? FindProperty("equivalence.matches_reference") : &property;
  const Case& stored = finding.derived ? *finding.derived : finding.smallest;
  Case plain = stored;
  plain.storage = Storage{};
  if (claim == nullptr || stored.storage == plain.storage || Validate(plain)) return std::nullopt;
  if (!RunFails(*claim, stored, contract, session) || !RunHolds(*claim, plain, contract, session)) {
    return std::nullopt;
  }
  const bool is_number = finding.signature.cause == Cause::kValue;
  if (auto narrower = NarrowerCause(*claim, stored, is_number, contract, session)) return narrower;
  return StorageCause{
      kStorageMisread,
      fmt::format("{} misread: in plain tensors the same values give the right result",
                  WordsFor(stored.storage))};
}

}  // namespace attest
