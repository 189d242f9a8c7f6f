// What the tests of the lowering share: contracts, and a look into calls.
#ifndef ATTEST_HARNESS_LOWER_TESTING_H_
#define ATTEST_HARNESS_LOWER_TESTING_H_

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "properties/harness/case/offers.h"
#include "properties/harness/lower/lower.h"

namespace attest {

inline Contract Parse(const std::string& json) {
  const auto contract = ParseContract(json);
  EXPECT_TRUE(contract) << contract.error();
  return *contract;
}

// attest's own conventions with every feature there is.
inline Contract Everything() {
  Contract contract = Parse(R"({"contract": "attest-1"})");
  const Contract& all = EverythingContract();
  contract.features = all.features;
  contract.fp8 = all.fp8;
  contract.scores = all.scores;
  contract.padded_query_rows = PaddedQueryRows::kComputed;
  for (const PoisonTensor tensor : {PoisonTensor::kK, PoisonTensor::kV}) {
    contract.poison_safe.insert({tensor, PoisonPlace::kPage});
  }
  return contract;
}

inline Lowered MustLower(const Case& c, const Contract& contract) {
  EXPECT_EQ(Validate(c), std::nullopt);
  auto lowered = Lower(c, Materialise(c), contract);
  EXPECT_TRUE(lowered) << lowered.error().reason;
  return *lowered;
}

inline const CallTensor* Find(const Call& call, int32_t role) {
  for (const CallTensor& t : call.tensors) {
    if (t.role == role) return &t;
  }
  return nullptr;
}

inline const CallOption* FindOption(const Call& call, int32_t id) {
  for (const CallOption& o : call.options) {
    if (o.id == id) return &o;
  }
  return nullptr;
}

inline std::vector<int64_t> IntegersOf(const CallTensor& t) {
  std::vector<int64_t> values(t.image.size() / sizeof(int64_t));
  if (!values.empty()) std::memcpy(values.data(), t.image.data(), t.image.size());
  return values;
}

}  // namespace attest

#endif  // ATTEST_HARNESS_LOWER_TESTING_H_
