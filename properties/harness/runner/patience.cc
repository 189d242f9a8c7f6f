#include "properties/harness/runner/patience.h"

#include <algorithm>

#include <fmt/format.h>

namespace attest {
namespace {

constexpr int64_t kMaxHangingProperties = 3;
constexpr int64_t kMaxDyingProperties = 3;

}  // namespace

void Patience::Note(const PropertyResult& result) {
  hanging_ += std::ranges::count(result.findings, Cause::kHang,
                                 [](const Finding& finding) { return finding.signature.cause; });
  // Where no findings are made any more.
  hanging_ += result.findings.empty() && result.first_cause == Cause::kHang ? 1 : 0;
  dying_ += result.dies_slowly ? 1 : 0;
}

std::string Patience::WhyNotRun() const {
  if (hanging_ >= kMaxHangingProperties) {
    return fmt::format("not run: the kernel hangs in {} properties", hanging_);
  }
  if (dying_ >= kMaxDyingProperties) {
    return fmt::format(
        "not run: the kernel kept dying in {} properties, and is slow to start again", dying_);
  }
  return "";
}

}  // namespace attest
