#include "properties/harness/vectors/vectors.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

namespace attest {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kMinusInf = -std::numeric_limits<double>::infinity();

onnx::TensorProto Floats(const std::vector<int64_t>& dims, const std::vector<float>& values) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t dim : dims) tensor.add_dims(dim);
  for (const float value : values) tensor.add_float_data(value);
  return tensor;
}

onnx::TensorProto Bools(const std::vector<int64_t>& dims, const std::string& bytes) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::BOOL);
  for (const int64_t dim : dims) tensor.add_dims(dim);
  tensor.set_raw_data(bytes);
  return tensor;
}

onnx::TensorProto Integers(const std::vector<int64_t>& values) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(static_cast<int64_t>(values.size()));
  for (const int64_t value : values) tensor.add_int64_data(value);
  return tensor;
}

// Writes a test folder, by default of one batch, one head, two queries, three keys and one column.
class FolderTest : public ::testing::Test {
 protected:
  FolderTest() {
    std::string pattern = (fs::temp_directory_path() / "attest_vectors_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    model_.mutable_graph()->add_node()->set_op_type("Attention");
    SetOpset(24);
    AddInput("Q", Floats({1, 1, 2, 1}, {1, 2}));
    AddInput("K", Floats({1, 1, 3, 1}, {3, 4, 5}));
    AddInput("V", Floats({1, 1, 3, 1}, {6, 7, 8}));
    AddOutput("Y", Floats({1, 1, 2, 1}, {9, 10}));
  }
  ~FolderTest() override { fs::remove_all(root_); }

  void SetOpset(int64_t version) {
    model_.clear_opset_import();
    model_.add_opset_import()->set_version(version);
  }
  // An empty name is an absent input: no file.
  void AddInput(const std::string& name, const onnx::TensorProto& tensor = {}) {
    model_.mutable_graph()->mutable_node(0)->add_input(name);
    if (name.empty()) return;
    model_.mutable_graph()->add_input()->set_name(name);
    inputs_.push_back(tensor);
  }
  void AddOutput(const std::string& name, const onnx::TensorProto& tensor = {}) {
    model_.mutable_graph()->mutable_node(0)->add_output(name);
    if (name.empty()) return;
    model_.mutable_graph()->add_output()->set_name(name);
    outputs_.push_back(tensor);
  }
  onnx::AttributeProto* AddAttribute(const std::string& name) {
    auto* attribute = model_.mutable_graph()->mutable_node(0)->add_attribute();
    attribute->set_name(name);
    return attribute;
  }
  void AddInt(const std::string& name, int64_t value) {
    auto* attribute = AddAttribute(name);
    attribute->set_type(onnx::AttributeProto::INT);
    attribute->set_i(value);
  }
  void AddFloat(const std::string& name, float value) {
    auto* attribute = AddAttribute(name);
    attribute->set_type(onnx::AttributeProto::FLOAT);
    attribute->set_f(value);
  }

  fs::path DataSet() const { return root_ / "test_it" / "test_data_set_0"; }
  static void WriteFile(const fs::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  void Write() {
    fs::create_directories(DataSet());
    WriteFile(root_ / "test_it" / "model.onnx", model_.SerializeAsString());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      WriteFile(DataSet() / ("input_" + std::to_string(i) + ".pb"), inputs_[i].SerializeAsString());
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      WriteFile(DataSet() / ("output_" + std::to_string(i) + ".pb"),
                outputs_[i].SerializeAsString());
    }
  }
  // The one vector of the folder; a failure where there is none.
  VectorCase ReadOne() {
    Write();
    auto vectors = ReadVectors(root_.string());
    EXPECT_TRUE(vectors) << vectors.error();
    if (!vectors) return {};
    EXPECT_EQ(vectors->size(), 1u);
    return std::move(vectors->front());
  }
  VectorCase ReadSupported() {
    VectorCase vector = ReadOne();
    EXPECT_THAT(vector.unsupported, IsEmpty());
    return vector;
  }
  std::string ReadError() {
    const auto vectors = ReadVectors(root_.string());
    EXPECT_FALSE(vectors);
    std::string error = vectors ? "" : vectors.error();
    EXPECT_THAT(error, Not(HasSubstr("\n")));
    return error;
  }

  fs::path root_;
  onnx::ModelProto model_;
  std::vector<onnx::TensorProto> inputs_, outputs_;
};

TEST_F(FolderTest, PlainVectorBecomesACaseOfLiterals) {
  const VectorCase vector = ReadSupported();
  EXPECT_EQ(vector.name, "test_it");
  const Problem& p = vector.c.problem;
  EXPECT_EQ(p.q_len, 2);
  EXPECT_EQ(p.kv_len, 3);
  EXPECT_EQ(p.scale, std::nullopt);
  EXPECT_FALSE(p.causal);
  EXPECT_FALSE(p.want_weights);
  EXPECT_THAT(Materialise(vector.c).k.values, ElementsAre(3, 4, 5));
  EXPECT_THAT(vector.out.values, ElementsAre(9, 10));
}

TEST_F(FolderTest, TheTestFolderItselfIsReadToo) {
  Write();
  for (const char* suffix : {"", "/"}) {
    const auto vectors = ReadVectors((root_ / "test_it").string() + suffix);
    ASSERT_TRUE(vectors) << vectors.error();
    EXPECT_EQ(vectors->front().name, "test_it");
  }
}

TEST_F(FolderTest, EachDataSetIsAVectorOfItsOwn) {
  Write();
  fs::copy(DataSet(), root_ / "test_it" / "test_data_set_1", fs::copy_options::recursive);
  const auto vectors = ReadVectors(root_.string());
  ASSERT_TRUE(vectors) << vectors.error();
  ASSERT_EQ(vectors->size(), 2u);
  EXPECT_EQ((*vectors)[1].name, "test_it/test_data_set_1");
}

TEST_F(FolderTest, ThreeDimensionsAreSplitIntoHeads) {
  // [batch, len, heads * dim]: head 0 has columns 0 and 1, head 1 has 2 and 3.
  inputs_ = {Floats({1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}), Floats({1, 1, 4}, {0, 1, 2, 3}),
             Floats({1, 1, 2}, {8, 9})};
  outputs_ = {Floats({1, 2, 2}, {10, 11, 12, 13})};
  AddInt("q_num_heads", 2);
  AddInt("kv_num_heads", 2);
  const VectorCase vector = ReadSupported();
  EXPECT_EQ(vector.c.problem.QShape(), (Shape4{1, 2, 2, 2}));
  EXPECT_THAT(vector.c.literals.at(DataTensor::kQ).values, ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  EXPECT_EQ(vector.c.problem.value_dim, 1);
  EXPECT_THAT(vector.out.values, ElementsAre(10, 12, 11, 13));
}

TEST_F(FolderTest, CausalWithoutKeyLengthsHasItsDiagonalAtZero) {
  AddInt("is_causal", 1);
  const VectorCase vector = ReadSupported();
  EXPECT_TRUE(vector.c.problem.causal);
  EXPECT_EQ(vector.c.problem.DiagonalOffset(0), 0);
}

TEST_F(FolderTest, CausalWithKeyLengthsEndsAtTheLastKeyOfEachItem) {
  AddInt("is_causal", 1);
  for (const char* absent : {"", "", ""}) AddInput(absent);
  AddInput("nonpad_kv_seqlen", Integers({1}));
  const VectorCase vector = ReadSupported();
  EXPECT_THAT(*vector.c.problem.key_lengths, ElementsAre(1));
  EXPECT_THAT(vector.c.problem.diagonal_offset, ElementsAre(-1));
}

TEST_F(FolderTest, WindowSizesOfOpset25AreTheWindow) {
  SetOpset(25);
  AddInt("left_window_size", 1);
  AddInt("right_window_size", -1);
  const VectorCase vector = ReadSupported();
  EXPECT_EQ(vector.c.problem.window, (Window{1, std::nullopt}));
}

TEST_F(FolderTest, ScaleAttributeIsTheScale) {
  AddFloat("scale", 0.25f);
  EXPECT_EQ(ReadSupported().c.problem.scale, 0.25);
}

TEST_F(FolderTest, BooleanMaskKeepsItsRankAndPolarity) {
  AddInput("attn_mask", Bools({2, 3}, std::string("\1\0\1\1\1\0", 6)));
  const VectorCase vector = ReadSupported();
  ASSERT_TRUE(vector.c.problem.mask);
  EXPECT_EQ(vector.c.problem.mask->rank, 2);
  EXPECT_EQ(vector.c.problem.mask->shape, (Shape4{1, 1, 2, 3}));
  EXPECT_THAT(vector.c.problem.mask->bits, ElementsAre(1, 0, 1, 1, 1, 0));
  EXPECT_FALSE(vector.c.problem.bias);
}

TEST_F(FolderTest, FloatingMaskIsABiasWhoseMinusInfinityHides) {
  AddInput("attn_mask", Floats({1, 3}, {0.5f, static_cast<float>(kMinusInf), 0}));
  const VectorCase vector = ReadSupported();
  ASSERT_TRUE(vector.c.problem.bias);
  EXPECT_THAT(vector.c.problem.bias->bits, ElementsAre(1, 0, 1));
  EXPECT_THAT(Materialise(vector.c).bias.values, ElementsAre(0.5, kMinusInf, 0));
  EXPECT_FALSE(vector.c.problem.mask);
}

TEST_F(FolderTest, ShortMaskIsPaddedWithHiddenKeys) {
  AddInput("attn_mask", Floats({2, 2}, {1, 2, 3, 4}));
  const VectorCase vector = ReadSupported();
  EXPECT_THAT(vector.c.problem.bias->bits, ElementsAre(1, 1, 0, 1, 1, 0));
  EXPECT_THAT(vector.c.literals.at(DataTensor::kBias).values,
              ElementsAre(1, 2, kMinusInf, 3, 4, kMinusInf));
}

TEST_F(FolderTest, MaskOfOneColumnBroadcastsBeforeOpset24AndIsAmbiguousSince) {
  SetOpset(23);
  AddInput("attn_mask", Bools({2, 1}, std::string("\1\0", 2)));
  EXPECT_EQ(ReadSupported().c.problem.mask->shape, (Shape4{1, 1, 2, 1}));
  SetOpset(24);
  EXPECT_THAT(ReadOne().unsupported, ElementsAre(HasSubstr("last dimension of 1")));
}

TEST_F(FolderTest, ProbabilitiesAreExpectedWeights) {
  AddInt("qk_matmul_output_mode", 3);
  AddOutput("");
  AddOutput("");
  AddOutput("qk_matmul_output", Floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}));
  const VectorCase vector = ReadSupported();
  EXPECT_TRUE(vector.c.problem.want_weights);
  EXPECT_THAT(vector.weights.values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(FolderTest, OtherModesAreExpectedScores) {
  AddOutput("");
  AddOutput("");
  AddOutput("qk_matmul_output", Floats({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(ReadSupported().c.problem.want_scores, ScoreMode::kRaw);
  AddInt("qk_matmul_output_mode", 2);
  const VectorCase vector = ReadSupported();
  EXPECT_EQ(vector.c.problem.want_scores, ScoreMode::kBiased);
  EXPECT_FALSE(vector.c.problem.want_weights);
  EXPECT_THAT(vector.scores.values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(FolderTest, ThePastStandsBeforeTheNewKeysAndMovesTheDiagonal) {
  AddInput("");
  AddInput("past_key", Floats({1, 1, 2, 1}, {-1, -2}));
  AddInput("past_value", Floats({1, 1, 2, 1}, {-3, -4}));
  AddOutput("present_key", Floats({1, 1, 5, 1}, {-1, -2, 3, 4, 5}));
  AddOutput("present_value", Floats({1, 1, 5, 1}, {-3, -4, 6, 7, 8}));
  AddInt("is_causal", 1);
  const VectorCase vector = ReadSupported();
  EXPECT_EQ(vector.c.problem.kv_len, 5);
  EXPECT_EQ(vector.c.storage.past, 2);
  EXPECT_THAT(vector.c.problem.diagonal_offset, ElementsAre(2));
  EXPECT_THAT(Materialise(vector.c).k.values, ElementsAre(-1, -2, 3, 4, 5));
  EXPECT_THAT(vector.present_v.values, ElementsAre(-3, -4, 6, 7, 8));
}

TEST_F(FolderTest, APastThatDoesNotFitIsAnError) {
  AddInput("");
  AddInput("past_key", Floats({1, 1, 2, 1}, {-1, -2}));
  Write();
  EXPECT_THAT(ReadError(), HasSubstr("one of past_key and past_value"));
  AddInput("past_value", Floats({1, 2, 1, 1}, {-3, -4}));
  Write();
  EXPECT_THAT(ReadError(), HasSubstr("past of V has shape [1, 2, 1, 1] before [1, 1, 3, 1]"));
}

TEST_F(FolderTest, SoftcapIsTheSoftcap) {
  AddFloat("softcap", 2);
  EXPECT_EQ(ReadSupported().c.problem.softcap, 2);
}

TEST_F(FolderTest, ASoftmaxAtLeastAsWideAsTheTensorsIsNoOther) {
  for (const int64_t wide : {1, 11}) {
    model_.mutable_graph()->mutable_node(0)->clear_attribute();
    AddInt("softmax_precision", wide);
    ReadSupported();
  }
  for (const int64_t narrow : {10, 16, 7}) {
    model_.mutable_graph()->mutable_node(0)->clear_attribute();
    AddInt("softmax_precision", narrow);
    EXPECT_THAT(ReadOne().unsupported, ElementsAre(HasSubstr("softmax_precision")));
  }
}

TEST_F(FolderTest, AnF32MaskBesideHalvesKeepsItsType) {
  for (onnx::TensorProto* tensor : {&inputs_[0], &inputs_[1], &inputs_[2], &outputs_[0]}) {
    const auto values = tensor->float_data();
    tensor->clear_float_data();
    tensor->set_data_type(onnx::TensorProto::FLOAT16);
    for (size_t i = 0; i < static_cast<size_t>(values.size()); ++i) tensor->add_int32_data(0x3C00);
  }
  AddInput("attn_mask", Floats({1, 3}, {0.1f, 0, 0}));
  const VectorCase vector = ReadSupported();
  EXPECT_EQ(vector.c.problem.BiasDType(), DType::kF32);
  EXPECT_EQ(Materialise(vector.c).bias.values[0], 0.1f);
}

TEST_F(FolderTest, EveryUnsupportedFeatureIsNamed) {
  AddFloat("softcap", -2);
  AddInt("softmax_precision", 10);
  AddInt("sparkle", 1);
  AddInt("qk_matmul_output_mode", 4);
  AddOutput("");
  AddOutput("");
  AddOutput("qk_matmul_output");
  EXPECT_THAT(ReadOne().unsupported,
              ElementsAre("softcap -2", "attribute sparkle", "qk_matmul_output in mode 4"));
}

TEST_F(FolderTest, OtherOperatorsAndOpsetsAreUnsupportedNotErrors) {
  SetOpset(22);
  EXPECT_THAT(ReadOne().unsupported, ElementsAre(HasSubstr("opset 22")));
  model_.mutable_graph()->mutable_node(0)->set_op_type("Relu");
  EXPECT_THAT(ReadOne().unsupported, ElementsAre("operator Relu"));
}

TEST_F(FolderTest, WhatNoProblemHoldsIsUnsupported) {
  inputs_[0] = Floats({1, 2, 1, 1}, {1, 2});
  inputs_[1] = Floats({1, 3, 1, 1}, {1, 2, 3});
  EXPECT_THAT(ReadOne().unsupported, ElementsAre(HasSubstr("kv_heads = 3")));
}

TEST_F(FolderTest, SoftcapOfZeroIsOff) {
  AddFloat("softcap", 0);
  EXPECT_EQ(ReadSupported().c.problem.softcap, 0);
}

TEST_F(FolderTest, FolderWithoutTestsIsAnError) {
  EXPECT_THAT(ReadError(), HasSubstr("no ONNX test folder"));
  fs::create_directory(root_ / "empty");
  EXPECT_THAT(ReadError(), HasSubstr("no ONNX test folder"));
  const auto missing = ReadVectors((root_ / "missing").string());
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error(), HasSubstr("missing: No such file"));
}

TEST_F(FolderTest, DamagedFilesAreErrorsThatNameThem) {
  Write();
  WriteFile(DataSet() / "input_1.pb", "\xff\xff\xff\xff");
  EXPECT_THAT(ReadError(), HasSubstr("input_1.pb: not an ONNX tensor"));
  fs::remove(DataSet() / "input_1.pb");
  EXPECT_THAT(ReadError(), HasSubstr("input_1.pb: No such file"));
  WriteFile(root_ / "test_it" / "model.onnx", "not a model");
  EXPECT_THAT(ReadError(), HasSubstr("model.onnx: not an ONNX model"));
  WriteFile(root_ / "test_it" / "model.onnx", "");
  EXPECT_THAT(ReadError(), HasSubstr("model.onnx: not an ONNX model"));
}

TEST_F(FolderTest, SizesThatContradictTheDataAreErrors) {
  const std::vector<std::pair<std::vector<int64_t>, std::string>> lies = {
      {{1, 1, 4, 1}, "12 bytes of FLOAT data where the dimensions ask for 16"},
      {{1, 1, -3, 1}, "dimension -3 is negative"},
      {{int64_t{1} << 62, 4, 3, 1}, "exceeds"},
      {{1 << 20, 1 << 20, 1 << 20, 1 << 20}, "more than"},
  };
  for (const auto& [dims, message] : lies) {
    inputs_[1] = Floats(dims, {3, 4, 5});
    Write();
    EXPECT_THAT(ReadError(), HasSubstr(message));
  }
}

TEST_F(FolderTest, EmptyTensorsWithHugeSizesTakeNoMemory) {
  const int64_t huge = int64_t{1} << 26;
  inputs_ = {Floats({1, 1, huge, 0}, {}), Floats({1, 1, huge, 0}, {}), Floats({1, 1, huge, 0}, {})};
  AddInput("attn_mask", Floats({huge, 0}, {}));
  EXPECT_THAT(ReadOne().unsupported, ElementsAre(HasSubstr("q_len")));
}

TEST_F(FolderTest, AbsurdHeadCountsAreErrors) {
  inputs_[0] = Floats({4, 1, 0}, {});
  AddInt("q_num_heads", int64_t{1} << 62);
  Write();
  EXPECT_THAT(ReadError(), HasSubstr("number of heads"));
}

TEST_F(FolderTest, OutputOfAnotherShapeIsAnError) {
  outputs_[0] = Floats({1, 1, 1, 2}, {9, 10});
  Write();
  EXPECT_THAT(ReadError(), HasSubstr("Y has shape [1, 1, 1, 2] where [1, 1, 2, 1] is computed"));
}

TEST_F(FolderTest, ZeroSizesAreCases) {
  inputs_[1] = Floats({1, 1, 0, 1}, {});
  inputs_[2] = Floats({1, 1, 0, 1}, {});
  EXPECT_EQ(ReadSupported().c.problem.kv_len, 0);
}

}  // namespace
}  // namespace attest
