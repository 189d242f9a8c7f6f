#include "properties/harness/runner/rapidcheck_driver.h"

#include <utility>

#include "properties/harness/case/equal.h"
#include "properties/harness/case/random.h"
#include "properties/harness/case/shrink.h"
#include "properties/harness/runner/rapidcheck_loops.h"

namespace attest {

uint64_t PropertySeed(uint64_t run_seed, std::string_view id) {
  uint64_t hash = MixBits(run_seed);
  for (const char c : id) hash = MixIn(hash, static_cast<unsigned char>(c));
  return hash;
}

SearchEnd SearchCases(int64_t wanted, const std::function<Case()>& draw,
                      const std::function<Answer(const Case&)>& test) {
  return rapidcheck_loops::Search<Case>(wanted, draw, test);
}

ShrunkCase ShrinkCase(const Case& failing, const std::function<bool(const Case&)>& still_fails,
                      int64_t budget, const std::function<bool()>& out_of_time) {
  auto [smallest, tries] = rapidcheck_loops::Shrink<Case>(
      failing, still_fails, budget, out_of_time, [](const Case& c) { return ShrinkCandidates(c); },
      [](const Case& a, const Case& b) { return SameCase(a, b); });
  return {std::move(smallest), tries};
}

}  // namespace attest
