#include "properties/harness/runner/patience.h"

#include <algorithm>

#include <fmt/format.h>

namespace attest {
namespace {

constexpr int64_t kMaxHangingProperties = 3;
constexpr int64_t kMaxDyingProperties = 3;

}  // namespace

void Patience::Note(const PropertyResult& result) {
  int64_t hangs = std::ranges::count(result.findings, Cause::kHang, [](const Finding& finding) {
    return finding.signature.cause;
  });
  // Where no findings are made any more.
  if (result.findings.empty() && result.first_cause == Cause::kHang) hangs = 1;
  int64_t& noted = hanging_[result.property];
  noted = std::max(noted, hangs);
  if (result.dies_slowly) dying_.insert(result.property);
}

std::string Patience::WhyNotRun() const {
  int64_t hangs = 0;
  for (const auto& [property, count] : hanging_) hangs += count;
  if (hangs >= kMaxHangingProperties) {
    return fmt::format("it hangs in {} properties", hangs);
  }
  if (std::ssize(dying_) >= kMaxDyingProperties) {
    return fmt::format("it kept dying in {} properties, and is slow to start again", dying_.size());
  }
  return "";
}

}  // namespace attest
