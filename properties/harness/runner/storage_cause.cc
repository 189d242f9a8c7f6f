#include "properties/harness/runner/storage_cause.h"

#include <string_view>

#include <fmt/format.h>

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

}  // namespace

std::string FindStorageCause(const Property& property, const Finding& finding,
                             const Contract& contract, KernelSession& session) {
  // Of a claim that stores its case in another way, the case that fails is one of its own.
  const Property* claim =
      finding.derived ? FindProperty("equivalence.matches_reference") : &property;
  const Case& stored = finding.derived ? *finding.derived : finding.smallest;
  Case plain = stored;
  plain.storage = Storage{};
  if (claim == nullptr || stored.storage == plain.storage || Validate(plain)) return "";
  if (!RunFails(*claim, stored, contract, session) || !RunHolds(*claim, plain, contract, session)) {
    return "";
  }
  return fmt::format("{} misread: in plain tensors the same values give the right result",
                     WordsFor(stored.storage));
}

}  // namespace attest
