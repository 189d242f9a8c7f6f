#include "impl/adapters/onnxruntime/model.h"

#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

namespace attest::ort {
namespace {

using ::testing::ElementsAre;

onnx::ModelProto Parse(const ModelSpec& spec) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(BuildModel(spec)));
  EXPECT_EQ(model.graph().node_size(), 1);
  return model;
}

std::map<std::string, onnx::AttributeProto> AttributesOf(const onnx::ModelProto& model) {
  std::map<std::string, onnx::AttributeProto> attributes;
  for (const auto& attribute : model.graph().node(0).attribute()) {
    attributes[attribute.name()] = attribute;
  }
  return attributes;
}

TEST(Model, PlainCallHasThreeInputsOneOutputAndTheScale) {
  const auto model = Parse({.scale = 0.25f});
  EXPECT_THAT(model.graph().node(0).input(), ElementsAre("Q", "K", "V"));
  EXPECT_THAT(model.graph().node(0).output(), ElementsAre("Y"));
  EXPECT_EQ(model.opset_import(0).version(), 24);
  const auto attributes = AttributesOf(model);
  EXPECT_EQ(attributes.at("scale").f(), 0.25f);
  EXPECT_EQ(attributes.count("is_causal"), 0u);
}

TEST(Model, AbsentInputsBeforeKeyLengthsAreEmptyNames) {
  const auto model = Parse({.key_lengths = true});
  EXPECT_THAT(model.graph().node(0).input(),
              ElementsAre("Q", "K", "V", "", "", "", "nonpad_kv_seqlen"));
  EXPECT_EQ(model.graph().input_size(), 4);
}

TEST(Model, MaskStandsBeforeKeyLengths) {
  const auto model = Parse({.mask = ElementType::kBool, .key_lengths = true});
  EXPECT_THAT(model.graph().node(0).input(),
              ElementsAre("Q", "K", "V", "attn_mask", "", "", "nonpad_kv_seqlen"));
  EXPECT_EQ(model.graph().input(3).type().tensor_type().elem_type(), onnx::TensorProto::BOOL);
}

TEST(Model, WeightsAreTheFourthOutputInModeThree) {
  const auto model = Parse({.causal = true, .weights = true});
  EXPECT_THAT(model.graph().node(0).output(), ElementsAre("Y", "", "", "qk_matmul_output"));
  const auto attributes = AttributesOf(model);
  EXPECT_EQ(attributes.at("qk_matmul_output_mode").i(), 3);
  EXPECT_EQ(attributes.at("is_causal").i(), 1);
}

TEST(Model, EveryFieldChangesTheBytes) {
  const std::vector<ModelSpec> specs = {
      {},
      {.opset = 23},
      {.type = ElementType::kFloat16},
      {.scale = 0.5f},
      {.causal = true},
      {.mask = ElementType::kBool},
      {.mask = ElementType::kFloat},
      {.key_lengths = true},
      {.weights = true},
  };
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < specs.size(); ++i) {
    const std::string bytes = BuildModel(specs[i]);
    EXPECT_EQ(bytes, BuildModel(specs[i])) << "spec " << i;
    EXPECT_TRUE(seen.emplace(bytes, i).second) << "spec " << i << " equals " << seen[bytes];
  }
}

}  // namespace
}  // namespace attest::ort
