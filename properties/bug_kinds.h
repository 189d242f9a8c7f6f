// The kinds of bug that attention kernels are reported with, and the properties that look for each.
// The words are those of a survey of 200 public reports. Callers: the program that writes
// properties/README.md, and its test.
#ifndef ATTEST_PROPERTIES_BUG_KINDS_H_
#define ATTEST_PROPERTIES_BUG_KINDS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attest {

struct BugKind {
  std::string_view name;   // "EMPTY"
  std::string_view what;   // one clause
  std::string_view globs;  // of property ids, separated by spaces
};

std::span<const BugKind> BugKinds();

// The kinds that a property looks for, in the table's order.
std::vector<std::string_view> KindsOf(std::string_view property_id);

}  // namespace attest

#endif  // ATTEST_PROPERTIES_BUG_KINDS_H_
