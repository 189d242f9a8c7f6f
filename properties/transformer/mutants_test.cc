// The gate of models: every seeded fault of impl/transformer is found in a few cases, and the models without a fault
// pass. Where the logits alone say it, the right model stands beside the faulty one as --against does.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "impl/transformer/faults.h"
#include "properties/harness/model/run_model.h"
#include "properties/transformer/model_properties.h"

namespace attest {
namespace {

struct Opened {
  std::unique_ptr<KernelSession> session;
  ModelContract contract;
};

Opened Open(const std::string& name) {
  const auto spec = ResolveKernel(name);
  EXPECT_TRUE(spec) << spec.error();
  auto session = KernelSession::Open(*spec);
  EXPECT_TRUE(session) << session.error();
  auto contract = ParseModelContract((*session)->identity().contract_json);
  EXPECT_TRUE(contract) << contract.error();
  return {std::move(*session), *contract};
}

RunOptions Options(int64_t cases) {
  RunOptions options;
  options.plan = {"test", cases};
  options.max_findings = 1;
  options.ends_when_full = true;
  options.shrink_budget = 0;
  return options;
}

class MutantTest : public testing::TestWithParam<transformer::Mutant> {};

// By itself: no other model stands beside it.
TEST_P(MutantTest, IsKilled) {
  Opened model = Open("model-mutant:" + std::string(GetParam().id));
  ModelLab lab(model.contract, *model.session);
  for (const ModelProperty& property : AllModelProperties()) {
    const PropertyResult result = RunModelProperty(property, lab, Options(24), {});
    if (result.verdict != VerdictKind::kFail) continue;
    RecordProperty("killed_by", std::string(property.id));
    return;
  }
  FAIL() << GetParam().id << " " << GetParam().does << ", and no property sees it";
}

INSTANTIATE_TEST_SUITE_P(Models, MutantTest,
                         testing::ValuesIn(transformer::Mutants().begin(),
                                           transformer::Mutants().end()),
                         [](const auto& mutant) {
                           std::string name(mutant.param.id);
                           std::erase(name, '-');
                           return name;
                         });

class RightModelTest : public testing::TestWithParam<const char*> {};

TEST_P(RightModelTest, Passes) {
  Opened model = Open(GetParam()), same = Open(GetParam());
  ModelLab other(same.contract, *same.session);
  ModelLab lab(model.contract, *model.session, &other);
  for (const ModelProperty& property : AllModelProperties()) {
    const PropertyResult result = RunModelProperty(property, lab, Options(24), {});
    EXPECT_TRUE(result.verdict == VerdictKind::kPass || result.verdict == VerdictKind::kMarginal ||
                result.verdict == VerdictKind::kUnsupported)
        << property.id << ": " << Name(result.verdict) << " " << result.reason
        << (result.findings.empty() ? "" : result.findings[0].verdict.sentence);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RightModelTest,
                         testing::Values("model:decoder", "model:gpt", "model:stream",
                                         "model:chunks", "model:alibi", "model:windowed",
                                         "model:paged", "model:encoder",
                                         "model:encoder?positions=none", "model:encoder-decoder",
                                         "model:decoder?dtype=f64"));

}  // namespace
}  // namespace attest
