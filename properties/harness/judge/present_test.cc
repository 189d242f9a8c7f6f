#include "properties/harness/judge/present.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/judge/explain/explain.h"

namespace attest {
namespace {

using ::testing::HasSubstr;

// Two items, two kv heads, four keys of one lane, all values different.
class PresentTest : public testing::Test {
 protected:
  PresentTest() {
    case_.problem.batch = case_.problem.q_heads = case_.problem.kv_heads = 2;
    case_.problem.kv_len = 4;
    case_.storage.past = 1;
    inputs_.k = inputs_.v = Array(case_.problem.KShape());
    for (size_t n = 0; n < inputs_.k.values.size(); ++n) {
      inputs_.k.values[n] = static_cast<double>(n);
      inputs_.v.values[n] = 100 + static_cast<double>(n);
    }
    outcome_.present_k = inputs_.k;
    outcome_.present_v = inputs_.v;
  }

  Verdict Judge() const { return JudgePresent(case_, inputs_, outcome_); }

  // Fills the present of the values from elsewhere.
  template <typename Source>
  void Misplace(Source&& source) {
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t j = 0; j < 4; ++j) {
          outcome_.present_v.At(b, h, j, 0) = source(b, h, j);
        }
  }

  void ExpectMisplaced(const char* phrase) {
    const Verdict verdict = Judge();
    EXPECT_EQ(verdict.kind, VerdictKind::kFail);
    EXPECT_EQ(verdict.output, "present_v");
    EXPECT_EQ(verdict.cause_class, kPresentMisplaced);
    EXPECT_THAT(verdict.sentence, HasSubstr(phrase));
  }

  Case case_;
  Inputs inputs_;
  Outcome outcome_;
};

TEST_F(PresentTest, ACopyPassesAndNoPresentToo) {
  EXPECT_EQ(Judge().kind, VerdictKind::kPass);
  EXPECT_EQ(Judge().rows, 16);
  outcome_.present_k = outcome_.present_v = Array();
  EXPECT_EQ(Judge().kind, VerdictKind::kPass);
}

TEST_F(PresentTest, OneWrongElementHasNoCause) {
  outcome_.present_k.At(1, 0, 2, 0) = 7;
  const Verdict verdict = Judge();
  EXPECT_EQ(verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(verdict.cause_class, "");
  EXPECT_EQ(
      verdict.sentence,
      "present_k[batch 1, kv head 0, key 2, lane 0] is 7 where 10 went in: the present is not "
      "past and new together");
  case_.storage = Storage{};
  case_.storage.first_call = FirstCall::kPastAbsent;
  EXPECT_THAT(Judge().sentence, HasSubstr("not the keys and values of a first call"));
}

TEST_F(PresentTest, OneNumberThroughoutIsNoOrder) {
  inputs_.k = Array(inputs_.k.shape);
  outcome_.present_k = inputs_.k;
  outcome_.present_v = Array(inputs_.v.shape);
  EXPECT_EQ(Judge().kind, VerdictKind::kFail);
  EXPECT_EQ(Judge().cause_class, "");
}

TEST_F(PresentTest, OtherOrdersAreNamed) {
  const Array& v = inputs_.v;
  Misplace([&](int64_t b, int64_t h, int64_t j) {
    const int64_t at = 4 * h + j;
    return v.At(b, at % 2, at / 2, 0);
  });
  ExpectMisplaced("[kv_len, kv_heads]");
  Misplace([&](int64_t b, int64_t, int64_t j) { return v.At(b, 0, j, 0); });
  ExpectMisplaced("head 0");
  Misplace([&](int64_t, int64_t h, int64_t j) { return v.At(0, h, j, 0); });
  ExpectMisplaced("item 0");
  Misplace([&](int64_t b, int64_t h, int64_t j) { return v.At(b, h, (j + 1) % 4, 0); });
  ExpectMisplaced("new keys stand before");
  Misplace([&](int64_t b, int64_t h, int64_t j) { return inputs_.k.At(b, h, j, 0); });
  ExpectMisplaced("swapped");
  Misplace([&](int64_t b, int64_t h, int64_t j) { return h == 0 ? v.At(b, 1, j, 0) : 0; });
  ExpectMisplaced("all kv heads are written to the place of head 0");
  Misplace([&](int64_t b, int64_t h, int64_t j) { return b == 0 ? v.At(b, h, j, 0) : 0; });
  ExpectMisplaced("batch item 0 alone is written to its place");
}

}  // namespace
}  // namespace attest
