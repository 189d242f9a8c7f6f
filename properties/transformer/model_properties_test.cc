// Each claim against a model that breaks it and one that does not, in the worker. The models are
// testdata/sum_model.cc; the Transformers are in the gate of cli/models_test.cc.
#include "properties/transformer/model_properties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "properties/harness/model/compare_logits.h"
#include "properties/harness/model/run_model.h"

namespace attest {
namespace {

using ::testing::HasSubstr;

struct Opened {
  std::unique_ptr<KernelSession> session;
  ModelContract contract;
};

Opened Open(const std::string& variant) {
  const auto spec = ResolveKernel(SUM_MODEL + variant);
  EXPECT_TRUE(spec) << spec.error();
  auto session = KernelSession::Open(*spec);
  EXPECT_TRUE(session) << session.error();
  auto contract = ParseModelContract((*session)->identity().contract_json);
  EXPECT_TRUE(contract) << contract.error();
  return {std::move(*session), *contract};
}

// The result of a property on a variant beside another; `finding` is its first, if any.
PropertyResult RunOn(const ModelProperty& property, const std::string& variant,
                     const std::string& other_variant, int64_t cases,
                     ModelFinding* finding = nullptr) {
  Opened model = Open(variant);
  Opened other = Open(other_variant);
  ModelLab other_lab(other.contract, *other.session);
  ModelLab lab(model.contract, *model.session, &other_lab);
  RunOptions options;
  options.plan = {"test", cases};
  options.max_findings = 1;
  options.ends_when_full = true;
  ModelObserver observer;
  observer.on_finding = [&](const ModelFinding& found) {
    if (finding != nullptr) *finding = found;
  };
  return RunModelProperty(property, lab, options, observer);
}

// A fault, a property that must see it, and what its sentence must say.
struct Kill {
  const char* variant;
  const char* property;
  const char* says;
};

constexpr Kill kKills[] = {
    {":nan-at-the-first", "logits.are_finite", "position 0 of item 0 hold NaN for token 0"},
    {":call-in-logits", "logits.reruns_are_the_same", "the same call was made before"},
    {"?seed=2", "logits.match_the_other_model", "due is what the other model says"},
    {":sees-the-next", "no_future.later_tokens_do_not_matter", "the diagonal lay 1 token too far"},
    {":triangle-transposed", "no_future.later_tokens_do_not_matter", "position 0 of item 0"},
    {":mean-of-the-length", "no_future.prefixes_say_the_same", "the first 1 tokens"},
    {":deaf-to-the-first", "dependency.every_earlier_token_matters",
     "position 1 of item 0 do not depend on the token at position 0"},
    {":cross-attention-causal?kind=encoder_decoder", "dependency.every_source_token_matters",
     "the source's token at position 1"},
    {":positions-count-padding", "padding.batch_equals_alone",
     "positions were counted from the beginning of the padding"},
    {":positions-count-padding", "padding.sides_agree", "padded on the left"},
    {":padding-visible", "padding.content_does_not_matter",
     "the padding on the left holds 1 instead of 0"},
    {":item-in-logits", "batch.order_does_not_matter", "due is what the sequence gives as item"},
    {":reads-its-neighbour", "batch.neighbours_do_not_matter", "all other items of the batch"},
    {":step-one-off", "cache.chunks_equal_one_shot", "as a prompt + 1"},
    {":reorder-forgotten", "cache.beams_go_on_from_their_parents", "it went on from item"},
    {":cache-kept", "cache.fresh_requests_see_nothing_of_others", "a request of other tokens"},
    {":bytes-of-all", "cache.bytes_are_linear", "uses 384 bytes, where 16 were due"},
    {":ordered?kind=encoder&positions=none", "positions.orderless_encoders_are_equivariant",
     "the tokens were permuted"},
    {":orderless?kind=encoder", "positions.order_matters", "positions do not matter"},
    {":absolute?positions=relative", "positions.relative_ones_have_no_beginning",
     "its first token stands at position 1"},
    {":target-not-shifted", "teacher_forcing.targets_are_the_next_token",
     "the target is the token itself: not shifted"},
    {":target-shifted-twice", "teacher_forcing.targets_are_the_next_token",
     "where the first token of a document was due"},
    {":padding-in-loss", "teacher_forcing.padding_has_no_weight", "weighs 1 in the loss"},
    {":edge-lost", "teacher_forcing.every_token_is_learnt_once", "is learnt 0 times"},
    {":target-not-shifted", "teacher_forcing.loss_cannot_beat_chance",
     "the answer is the input at the same position"},
    {":ends-skipped?batcher=stream", "teacher_forcing.targets_are_the_next_token",
     "the target is of another document"},
    {":edge-lost?batcher=stream", "teacher_forcing.every_token_is_learnt_once",
     "is learnt 0 times"},
    {":drops-a-row?batcher=stream", "teacher_forcing.every_token_is_learnt_once",
     "is learnt 0 times"},
    {":target-not-shifted?batcher=stream", "teacher_forcing.loss_cannot_beat_chance",
     "the answer is the input at the same position"},
    {":crashes", "logits.are_finite", "address 0"},
    // Causes, named by experiment.
    {":sees-itself-alone", "dependency.every_earlier_token_matters",
     "\"reach\": 1 in the contract"},
    {":causal?kind=encoder", "dependency.every_earlier_token_matters", "the encoder were causal"},
    {":cache-kept", "cache.chunks_equal_one_shot", "made twice in a row gives other logits"},
    {":reads-its-neighbour", "cache.chunks_equal_one_shot", "move it"},
    {":positions-count-padding", "cache.chunks_equal_one_shot", "as if padding counted"},
    {":padding-visible", "cache.chunks_equal_one_shot", "as if padding were seen"},
    {":step-one-off?positions=relative", "cache.chunks_equal_one_shot", "as if a layer were"},
    {":step-forgets-the-first", "cache.chunks_equal_one_shot",
     "the token at position 0 had been forgotten"},
    {":step-wraps", "cache.chunks_equal_one_shot", "steps are right up to position 11"},
    {":reorder-forgotten", "cache.beams_go_on_from_their_parents", "the cache were left as it is"},
    {":reorder-in-place", "cache.beams_go_on_from_their_parents", "copied one by one"},
    {":bytes-of-all", "cache.bytes_are_linear", "always paid for max_len tokens"},
    {":call-in-logits", "cache.chunks_equal_one_shot", "made twice in a row gives other logits"},
};

class KillTest : public testing::TestWithParam<Kill> {};

TEST_P(KillTest, IsFoundShrunkAndExplained) {
  const ModelProperty* property = FindModelProperty(GetParam().property);
  ASSERT_NE(property, nullptr);
  ModelFinding finding;
  const PropertyResult result = RunOn(*property, GetParam().variant, "?seed=1", 60, &finding);
  EXPECT_EQ(result.verdict, VerdictKind::kFail) << result.reason;
  EXPECT_THAT(finding.finding.verdict.sentence, HasSubstr(GetParam().says));
  EXPECT_EQ(finding.finding.confirmed, finding.finding.confirmations);
}

INSTANTIATE_TEST_SUITE_P(Faults, KillTest, testing::ValuesIn(kKills));

TEST(ModelPropertiesTest, EveryPropertyHasAFaultThatItSees) {
  for (const ModelProperty& property : AllModelProperties()) {
    const bool is_killed_by =
        std::ranges::any_of(kKills, [&](const Kill& kill) { return kill.property == property.id; });
    EXPECT_TRUE(is_killed_by) << property.id;
  }
}

class HonestTest : public testing::TestWithParam<const char*> {};

TEST_P(HonestTest, PassesWhateverItPromises) {
  for (const ModelProperty& property : AllModelProperties()) {
    const PropertyResult result = RunOn(property, GetParam(), GetParam(), 40);
    EXPECT_TRUE(result.verdict == VerdictKind::kPass || result.verdict == VerdictKind::kMarginal ||
                result.verdict == VerdictKind::kUnsupported)
        << property.id << ": " << Name(result.verdict) << " " << result.reason
        << (result.findings.empty() ? "" : result.findings[0].verdict.sentence);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, HonestTest,
                         testing::Values("?seed=1", "?positions=relative", "?kind=encoder",
                                         "?kind=encoder&positions=none", "?kind=encoder_decoder",
                                         "?batcher=stream", ":rotated?batcher=stream"));

TEST(ModelPropertiesTest, HangsAreFoundAndEndTheProperty) {
  const auto spec = ResolveKernel(SUM_MODEL ":hangs");
  ASSERT_TRUE(spec);
  SessionOptions session_options;
  session_options.deadline = std::chrono::milliseconds(50);
  auto session = KernelSession::Open(*spec, session_options);
  ASSERT_TRUE(session);
  const auto contract = ParseModelContract((*session)->identity().contract_json);
  ModelLab lab(*contract, **session);
  RunOptions options;
  options.plan = {"test", 40};
  options.shrink_budget = 0;
  const PropertyResult result =
      RunModelProperty(*FindModelProperty("logits.are_finite"), lab, options, {});
  EXPECT_EQ(result.verdict, VerdictKind::kFail);
  EXPECT_EQ(result.first_cause, Cause::kHang);
  EXPECT_LE(result.cases_run(), 2);
}

// A run that ends while a failure is run again has not seen it pass.
TEST(ModelPropertiesTest, AnInterruptedRerunIsNotCounted) {
  std::atomic<bool> stop = false;
  SessionOptions session_options;
  session_options.stop = &stop;
  auto session = KernelSession::Open(*ResolveKernel(SUM_MODEL ":hangs"), session_options);
  ASSERT_TRUE(session);
  const auto contract = ParseModelContract((*session)->identity().contract_json);
  ModelLab lab(*contract, **session);
  const ModelProperty& property = *FindModelProperty("logits.are_finite");
  ModelCase c;
  c.tokens = {{1, 2, 3}};
  const Verdict verdict = ModelFailure(Cause::kHang, "", "no answer after 5 s");
  RunOptions options;
  options.stop = &stop;
  stop = true;
  const ModelFinding found = MakeModelFinding(property, c, verdict, lab, options, {});
  EXPECT_EQ(found.finding.confirmations, 0);
  EXPECT_EQ(found.finding.verdict.kind, VerdictKind::kFail);
  EXPECT_EQ(found.finding.verdict.reason, "reruns not finished");
  EXPECT_TRUE(SameCase(found.smallest, c));
}

TEST(ModelPropertiesTest, AModelThatDiesSlowlyEndsTheProperty) {
  Opened model = Open(":crashes");
  ModelLab lab(model.contract, *model.session);
  RunOptions options;
  options.plan = {"test", 60};
  options.shrink_budget = 0;
  options.slow_restart = options.slow_deaths_time = std::chrono::milliseconds(0);
  options.max_slow_deaths = 3;
  const PropertyResult result =
      RunModelProperty(*FindModelProperty("logits.are_finite"), lab, options, {});
  EXPECT_TRUE(result.dies_slowly);
  EXPECT_LE(result.cases_run(), 3);
  EXPECT_THAT(result.reason, HasSubstr("stopped after 3 deaths of the worker"));
}

// Whatever the parts, the cases and the verdict are those of one run.
TEST(ModelPropertiesTest, APropertyInPartsIsOneRun) {
  Opened model = Open(":step-one-off");
  ModelLab lab(model.contract, *model.session);
  RunOptions options;
  options.plan = {"test", 40};
  const ModelProperty& property = *FindModelProperty("cache.chunks_equal_one_shot");
  const PropertyResult whole = RunModelProperty(property, lab, options, {});
  const ModelObserver nobody;
  ModelPropertyRun run(property, lab, options, nobody);
  run.RunTo(10, options);
  EXPECT_EQ(run.result().cases_run(), 10);
  run.RunTo(40, options);
  const PropertyResult parts = run.Finish();
  EXPECT_EQ(parts.cases, whole.cases);
  ASSERT_EQ(parts.findings.size(), whole.findings.size());
  EXPECT_EQ(parts.findings[0].verdict.sentence, whole.findings[0].verdict.sentence);
}

// What is waived neither hides nor is shrunk to what is not.
TEST(ModelPropertiesTest, AWaivedFailureHidesNoOther) {
  Opened model = Open(":step-one-off");
  ModelLab lab(model.contract, *model.session);
  RunOptions options;
  options.plan = {"test", 60};
  std::vector<ModelFinding> found;
  ModelObserver observer;
  observer.on_finding = [&](const ModelFinding& finding) { found.push_back(finding); };
  observer.is_waived = [](const Signature&, const ModelCase& c, const Verdict&) {
    return c.cache == "paged";
  };
  RunModelProperty(*FindModelProperty("cache.chunks_equal_one_shot"), lab, options, observer);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0].smallest.cache, found[1].smallest.cache);
}

TEST(ModelPropertiesTest, ThePictureShowsWhatDependsOnWhat) {
  Opened model = Open(":sees-the-next");
  ModelLab lab(model.contract, *model.session);
  ModelCase c;
  c.tokens = {{1, 2, 3}};
  c.others = {{4, 5, 6}};
  EXPECT_EQ(DependencyPicture(c, lab),
            "observed  intended\n"
            "##.       #..\n"
            "###       ##.\n"
            "###       ###\n"
            "a line a position, a column a token: # the logits there move with it, . they do not;\n"
            "observed: of this model; intended: as its contract says\n");
}

}  // namespace
}  // namespace attest
