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

constexpr ElementType kF32 = ElementType::kFloat;

Tensor Named(const char* name, ElementType type = kF32) {
  return MakeTensor(name, type, {1}, nullptr);
}

OnnxCall Plain() {
  OnnxCall call;
  call.inputs = {Named("Q"), Named("K"), Named("V")};
  call.outputs = {Named("Y")};
  return call;
}

onnx::ModelProto Parse(const OnnxCall& call) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(BuildModel(call)));
  EXPECT_EQ(model.graph().node_size(), 1);
  return model;
}

TEST(Model, NodeHasTheInputsOutputsAndAttributesOfTheCall) {
  OnnxCall call = Plain();
  call.attributes = {{"scale", 0.25f}, {"is_causal", int64_t{1}}};
  const auto model = Parse(call);
  const auto& node = model.graph().node(0);
  EXPECT_THAT(node.input(), ElementsAre("Q", "K", "V"));
  EXPECT_THAT(node.output(), ElementsAre("Y"));
  EXPECT_EQ(node.op_type(), "Attention");
  ASSERT_EQ(node.attribute_size(), 2);
  EXPECT_EQ(node.attribute(0).name(), "scale");
  EXPECT_EQ(node.attribute(0).f(), 0.25f);
  EXPECT_EQ(node.attribute(1).i(), 1);
  ASSERT_EQ(model.opset_import_size(), 1);
  EXPECT_EQ(model.opset_import(0).version(), 24);
}

TEST(Model, AbsentTensorsAreEmptyNamesAndTrailingOnesLeftOut) {
  OnnxCall call = Plain();
  call.inputs.resize(9);
  call.inputs[6] = Named("nonpad_kv_seqlen", ElementType::kInt64);
  call.outputs.resize(4);
  const auto model = Parse(call);
  EXPECT_THAT(model.graph().node(0).input(),
              ElementsAre("Q", "K", "V", "", "", "", "nonpad_kv_seqlen"));
  EXPECT_THAT(model.graph().node(0).output(), ElementsAre("Y"));
  ASSERT_EQ(model.graph().input_size(), 4);
  EXPECT_EQ(model.graph().input(3).type().tensor_type().elem_type(), onnx::TensorProto::INT64);
}

TEST(Model, OperatorsOfAnotherDomainImportIt) {
  OnnxCall call = Plain();
  call.op = "MultiHeadAttention";
  call.domain = "com.microsoft";
  const auto model = Parse(call);
  EXPECT_EQ(model.graph().node(0).domain(), "com.microsoft");
  ASSERT_EQ(model.opset_import_size(), 2);
  EXPECT_EQ(model.opset_import(1).domain(), "com.microsoft");
  EXPECT_EQ(model.opset_import(1).version(), 1);
}

TEST(Model, SizesAndDataDoNotChangeTheBytesAndAllElseDoes) {
  std::vector<OnnxCall> calls(7, Plain());
  calls[1].opset = 23;
  calls[2].inputs[0].type = ElementType::kFloat16;
  calls[3].attributes = {{"scale", 0.5f}};
  calls[4].attributes = {{"scale", 0.25f}};
  calls[5].inputs.push_back(Named("attn_mask", ElementType::kBool));
  calls[6].domain = "com.microsoft";
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string bytes = BuildModel(calls[i]);
    EXPECT_TRUE(seen.emplace(bytes, i).second) << "call " << i << " equals " << seen[bytes];
    calls[i].inputs[0].shape = {2, 3};
    EXPECT_EQ(bytes, BuildModel(calls[i])) << "call " << i;
  }
}

}  // namespace
}  // namespace attest::ort
