#include <gtest/gtest.h>

#include <vector>

#include "impl/abi/testing/call_fixture.h"

namespace attest {
namespace {

// The same call of batch 2, 4 query heads on 2 key heads, q_len 3, kv_len 5, head_dim 6, value_dim 7
// as in call_view_test.cc, with k and v stored otherwise.
class CallStorageTest : public CallViewTest {
 protected:
  // Where element 0 of a row lies, counted from the start of the tensor.
  static int64_t Index(const RowSpan<const float>& row, const TestTensor& tensor) {
    return row.data - reinterpret_cast<const float*>(tensor.storage.data());
  }

  void Replace(int32_t role, TestTensor& tensor) {
    for (attest_argument& argument : arguments_) {
      if (argument.role == role) argument.tensor = &tensor.tensor;
    }
  }
};

class PastTest : public CallStorageTest {
 protected:
  TestTensor& past_k_ = Add(ATTEST_ROLE_PAST_K, kFloat32, {2, 2, 4, 6});
  TestTensor& past_v_ = Add(ATTEST_ROLE_PAST_V, kFloat32, {2, 2, 4, 7});
};

TEST_F(PastTest, PastKeysComeFirst) {
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->kv_len, 9);
  EXPECT_EQ(Index(view->KeyAt<float>(1, 1, 3), past_k_), (3 * 4 + 3) * 6);
  EXPECT_EQ(Index(view->KeyAt<float>(1, 1, 4), k_), 3 * 5 * 6);
  EXPECT_EQ(Index(view->ValueAt<float>(0, 1, 8), v_), (5 + 4) * 7);
}

TEST_F(PastTest, HalfAPastIsInvalid) {
  arguments_.pop_back();
  ExpectInvalid("past_v is missing beside past_k");
}

TEST_F(PastTest, PresentHoldsBothParts) {
  TestTensor& present = Add(ATTEST_ROLE_PRESENT_K, kFloat32, {2, 2, 5, 6});
  ExpectInvalid("present_k has shape [2, 2, 5, 6], expected [2, 2, 9, 6]");
  present.shape[2] = 9;
  EXPECT_TRUE(Parse());
}

TEST_F(PastTest, StoragesDoNotMix) {
  AddIntegers(ATTEST_ROLE_RING_START, {2}, {0, 0});
  ExpectInvalid("ring_start does not go with past_k");
}

TEST_F(CallStorageTest, ARingStartsAnywhere) {
  TestTensor& start = AddIntegers(ATTEST_ROLE_RING_START, {2}, {0, 3});
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(Index(view->KeyAt<float>(0, 0, 4), k_), 4 * 6);
  EXPECT_EQ(Index(view->KeyAt<float>(1, 0, 1), k_), (2 * 5 + 4) * 6);
  EXPECT_EQ(Index(view->KeyAt<float>(1, 0, 2), k_), 2 * 5 * 6);
  start.storage[1] = 5;
  ExpectInvalid("ring_start[1] = 5 is outside 0..4");
}

class PagesTest : public CallStorageTest {
 protected:
  PagesTest() {
    Replace(ATTEST_ROLE_K, k_pages_);
    Replace(ATTEST_ROLE_V, v_pages_);
  }

  // Four pages of 2 keys; item 0 has 3 keys in pages 2 and 0, item 1 has 4 in pages 3 and 2.
  TestTensor k_pages_{kFloat32, {4, 2, 2, 6}};
  TestTensor v_pages_{kFloat32, {4, 2, 2, 7}};
  TestTensor& table_ = AddIntegers(ATTEST_ROLE_PAGE_TABLE, {2, 3}, {2, 0, -1, 3, 2, -1});
  TestTensor& key_lengths_ = AddIntegers(ATTEST_ROLE_KEY_LENGTHS, {2}, {3, 4});
};

TEST_F(PagesTest, TheTableLeadsToTheKey) {
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->kv_len, 4) << "the longest item";
  EXPECT_EQ(view->StoredKeys(0), 3);
  EXPECT_EQ(Index(view->KeyAt<float>(0, 1, 2), k_pages_), 1 * 2 * 6);
  EXPECT_EQ(Index(view->KeyAt<float>(1, 1, 1), k_pages_), ((3 * 2 + 1) * 2 + 1) * 6);
  EXPECT_EQ(Index(view->ValueAt<float>(1, 0, 2), v_pages_), (2 * 2) * 2 * 7);
}

TEST_F(PagesTest, OtherTensorsMaySayMoreKeys) {
  TestTensor& mask = Add(ATTEST_ROLE_MASK, kByte, {3, 1});
  EXPECT_EQ(Parse()->kv_len, 4) << "one for all keys says nothing";
  arguments_.pop_back();
  Add(ATTEST_ROLE_WEIGHTS, kFloat32, {2, 4, 3, 6});
  EXPECT_EQ(Parse()->kv_len, 6);
  arguments_.push_back({ATTEST_ROLE_MASK, &mask.tensor});
  mask.shape[1] = 5;
  ExpectInvalid("mask has shape [3, 5], which does not broadcast to [2, 4, 3, 6]");
}

TEST_F(PagesTest, BlocksMaySayMoreKeys) {
  options_.push_back(Integer(ATTEST_OPTION_BLOCK_Q, 1000));
  options_.push_back(Integer(ATTEST_OPTION_BLOCK_K, 3));
  Add(ATTEST_ROLE_BLOCK_MASK, kByte, {1, 1, 1, 3});
  EXPECT_EQ(Parse()->kv_len, 7);
}

TEST_F(PagesTest, TablesThatMissAPageAreInvalid) {
  table_.storage[1] = -1;
  ExpectInvalid("page_table[0, 1] = -1 though 2 pages hold the item's 3 keys");
  table_.storage[1] = 4;
  ExpectInvalid("page_table[0, 1] = 4 is outside -1..3");
  table_.storage[1] = 0;
  table_.storage[2] = 1;
  ExpectInvalid("page_table[0, 2] = 1");
  table_.storage[2] = -1;
  key_lengths_.storage[1] = 7;
  ExpectInvalid("key_lengths[1] = 7 is outside 0..6");
  arguments_.pop_back();
  ExpectInvalid("key_lengths is missing beside page_table");
}

TEST_F(PagesTest, WhatPagesDoNotHoldCannotBeAskedFor) {
  TestTensor& present = Add(ATTEST_ROLE_PRESENT_K, kFloat32, {2, 2, 4, 6});
  ExpectInvalid("present_k does not go with page_table");
  arguments_.pop_back();
  (void)present;
  Add(ATTEST_ROLE_SCORES, kFloat32, {2, 4, 3, 4});
  options_.push_back(Integer(ATTEST_OPTION_SCORES, 0));
  ExpectInvalid("scores of 4 keys are asked for where pages hold 3");
  options_.back() = Integer(ATTEST_OPTION_SCORES, 2);
  EXPECT_TRUE(Parse());
}

class PackedTest : public CallStorageTest {
 protected:
  PackedTest() {
    Replace(ATTEST_ROLE_Q, q_rows_);
    Replace(ATTEST_ROLE_K, k_rows_);
    Replace(ATTEST_ROLE_V, v_rows_);
    Replace(ATTEST_ROLE_OUT, out_rows_);
  }

  // Three items of 2, 0 and 3 rows and 0, 1 and 4 keys.
  TestTensor q_rows_{kFloat32, {5, 4, 6}};
  TestTensor k_rows_{kFloat32, {5, 2, 6}};
  TestTensor v_rows_{kFloat32, {5, 2, 7}};
  TestTensor out_rows_{kFloat32, {5, 4, 7}};
  TestTensor& cu_query_ = AddIntegers(ATTEST_ROLE_CU_QUERY_LENGTHS, {4}, {0, 2, 2, 5});
  TestTensor& cu_key_ = AddIntegers(ATTEST_ROLE_CU_KEY_LENGTHS, {4}, {0, 0, 1, 5});
};

TEST_F(PackedTest, RowsLieEndToEnd) {
  TestTensor& lse = Add(ATTEST_ROLE_LSE, kFloat32, {4, 5});
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->batch, 3);
  EXPECT_EQ(view->q_len, 3);
  EXPECT_EQ(view->kv_len, 4);
  EXPECT_EQ(view->StoredRows(0), 2);
  EXPECT_EQ(view->StoredRows(1), 0);
  EXPECT_EQ(view->StoredKeys(1), 1);
  EXPECT_EQ(view->KeyLength(2), 4);
  EXPECT_EQ(Index(view->QueryAt<float>(2, 3, 1), q_rows_), (3 * 4 + 3) * 6);
  EXPECT_EQ(Index(view->KeyAt<float>(2, 1, 3), k_rows_), (4 * 2 + 1) * 6);
  EXPECT_EQ(view->OutAt<float>(2, 1, 0).data,
            reinterpret_cast<float*>(out_rows_.storage.data()) + (2 * 4 + 1) * 7);
  EXPECT_EQ(&view->LseAt<float>(2, 3, 2), reinterpret_cast<float*>(lse.storage.data()) + 3 * 5 + 4);
}

TEST_F(PackedTest, SumsThatContradictTheTensorsAreInvalid) {
  cu_query_.storage[3] = 4;
  ExpectInvalid("cu_query_lengths goes from 0 to 4, expected 0 to 5");
  cu_query_.storage[3] = 5;
  cu_query_.storage[2] = 1;
  ExpectInvalid("cu_query_lengths[2] falls");
  cu_query_.storage[2] = 2;
  cu_key_.shape[0] = 3;
  cu_key_.storage[2] = 5;
  ExpectInvalid("cu_query_lengths and cu_key_lengths are of 4 and 3 entries");
  arguments_.pop_back();
  ExpectInvalid("cu_key_lengths is missing beside cu_query_lengths");
}

TEST_F(PackedTest, PaddedTensorsAreInvalid) {
  Replace(ATTEST_ROLE_Q, q_);
  ExpectInvalid("q has rank 4, expected 3");
  Replace(ATTEST_ROLE_Q, q_rows_);
  for (const auto& [role, name] :
       {std::pair{ATTEST_ROLE_WEIGHTS, "weights"}, std::pair{ATTEST_ROLE_SCORES, "scores"},
        std::pair{ATTEST_ROLE_KEY_LENGTHS, "key_lengths"},
        std::pair{ATTEST_ROLE_PRESENT_V, "present_v"}}) {
    Add(role, kFloat32, {1});
    options_.push_back(Integer(ATTEST_OPTION_SCORES, 2));
    if (role != ATTEST_ROLE_SCORES) options_.pop_back();
    ExpectInvalid(std::string(name) + " does not go with cu_key_lengths");
    if (role == ATTEST_ROLE_SCORES) options_.pop_back();
    arguments_.pop_back();
  }
}

class Fp8Test : public CallStorageTest {
 protected:
  Fp8Test() {
    for (TestTensor* tensor : {&q_, &k_, &v_}) tensor->tensor.dtype = kByte;
    options_.push_back(Integer(ATTEST_OPTION_FP8, 2));
  }
};

TEST_F(Fp8Test, TheOutputSaysTheElementType) {
  TestTensor& scale = Add(ATTEST_ROLE_K_SCALE, kFloat32, {1});
  *reinterpret_cast<float*>(scale.storage.data()) = 0.25F;
  const auto view = Parse();
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->dtype, DType::kF32);
  EXPECT_EQ(view->fp8, DType::kE5M2);
  EXPECT_EQ(view->k_scale, 0.25);
  EXPECT_EQ(view->v_scale, 1);
  const auto* base = reinterpret_cast<const uint8_t*>(k_.storage.data());
  EXPECT_EQ(view->KeyAt<uint8_t>(0, 0, 1).data, base + 6);
}

TEST_F(Fp8Test, FormatsAndScalesAreChecked) {
  options_.back() = Integer(ATTEST_OPTION_FP8, 3);
  ExpectInvalid("fp8 = 3 is neither 1 nor 2");
  options_.back() = Integer(ATTEST_OPTION_FP8, 1);
  Add(ATTEST_ROLE_Q_SCALE, kFloat32, {1});
  ExpectInvalid("q_scale = 0 is not a positive number");
  options_.pop_back();
  ExpectUnsupported("q has an element type that is not offered");
  for (TestTensor* tensor : {&q_, &k_, &v_}) tensor->tensor.dtype = kFloat32;
  ExpectInvalid("q_scale comes without option fp8");
}

}  // namespace
}  // namespace attest
