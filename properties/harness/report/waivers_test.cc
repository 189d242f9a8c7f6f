#include "properties/harness/report/waivers.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/harness/report/result_text.h"
#include "properties/property.h"

namespace attest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kText[] = R"(
[[waiver]]
kernel = "ort:attention*"
versions = ">=1.9 <1.30"
signature = "equivalence.matches_reference/value/out*"
reason = "known"
)";

// A fault that shows in many properties, and only behind a past.
constexpr char kFault[] = R"(
[[waiver]]
kernel = "ort:*"
versions = "*"
signature = "*/value/out*"
when = ["causal", "past", "q_len = 1", "new_keys > 1"]
reason = "F1"
)";

ReportedFinding FindingOf(const std::string& property, Cause cause, const std::string& output) {
  ReportedFinding reported;
  reported.finding.signature = {property, cause, output, "some-class"};
  reported.finding.verdict.kind = VerdictKind::kFail;
  return reported;
}

KernelReport KernelOf(const std::string& name, VerdictKind kind,
                      std::vector<ReportedFinding> findings) {
  KernelReport kernel;
  kernel.kernel = name;
  kernel.identity = {"ort", "1.28.2", "{}"};
  kernel.results.resize(1);
  kernel.results[0].property = "equivalence.matches_reference";
  kernel.results[0].verdict = kind;
  kernel.results[0].cases[kind] = 7;
  kernel.findings = std::move(findings);
  return kernel;
}

// What `attest check` does with a finished kernel.
KernelReport Waived(KernelReport kernel, const char* text = kText) {
  const auto waivers = ParseWaivers(text, "w.toml");
  EXPECT_TRUE(waivers) << waivers.error();
  for (ReportedFinding& reported : kernel.findings) {
    reported.waived = ReasonToWaive(*waivers, kernel, reported.finding.signature,
                                    reported.finding.smallest, reported.finding.verdict);
  }
  ApplyWaivers(*waivers, kernel);
  return kernel;
}

int ExitOf(const KernelReport& kernel) {
  RunReport report;
  report.kernels = {kernel};
  return ExitCode(report);
}

const ReportedFinding kKnown = FindingOf("equivalence.matches_reference", Cause::kValue, "out");

TEST(Waivers, AKnownFindingIsShownAndDoesNotFail) {
  KernelReport kernel = Waived(KernelOf("ort:attention?opset=23", VerdictKind::kFail, {kKnown}));
  EXPECT_EQ(VerdictText(kernel.findings[0]), "WAIVED");
  EXPECT_EQ(VerdictText(kernel.results[0]), "WAIVED");
  EXPECT_THAT(kernel.idle_waivers, IsEmpty());
  EXPECT_EQ(ExitOf(kernel), 0);
  kernel.results.emplace_back().verdict = VerdictKind::kInconclusive;
  EXPECT_EQ(ExitOf(kernel), 2);
}

TEST(Waivers, PartsThatAPatternLeavesOutMayBeAnything) {
  KernelReport kernel;
  kernel.kernel = "ggml:flash";
  const auto waives = [&](const std::string& pattern, const Signature& signature) {
    const auto waivers = ParseWaivers(
        "[[waiver]]\nkernel = 'ggml:flash'\nversions = '*'\nreason = 'r'\nsignature = '" + pattern +
            "'",
        "w.toml");
    EXPECT_TRUE(waivers) << waivers.error();
    return waivers && !ReasonToWaive(*waivers, kernel, signature, Case(), {}).empty();
  };
  const Signature signature{"heads.labels_come_back", Cause::kNan, "out", "row-nan"};
  EXPECT_TRUE(waives("*/nan", signature));
  EXPECT_TRUE(waives("heads.labels_come_back/nan/out", signature));
  EXPECT_FALSE(waives("*/value", signature));
  EXPECT_FALSE(waives("*/nan/lse", signature));
}

TEST(Waivers, AnythingElseStillFails) {
  const ReportedFinding others[] = {
      FindingOf("equivalence.matches_reference", Cause::kNan, "out"),
      FindingOf("equivalence.matches_reference", Cause::kValue, "lse"),
      FindingOf("causal.future_keys_do_not_matter", Cause::kValue, "out")};
  for (const ReportedFinding& other : others) {
    const KernelReport kernel =
        Waived(KernelOf("ort:attention", VerdictKind::kFail, {kKnown, other}));
    EXPECT_EQ(kernel.findings[1].waived, "");
    EXPECT_EQ(ExitOf(kernel), 1) << ToString(other.finding.signature);
  }
  EXPECT_EQ(ExitOf(Waived(KernelOf("ort:mha", VerdictKind::kFail, {kKnown}))), 1);
}

TEST(Waivers, VersionsCompareNumberByNumber) {
  for (const auto& [version, holds] : std::map<std::string, bool>{
           {"1.9", true}, {"1.28.2", true}, {"1.8.9", false}, {"1.30", false}, {"1.30.0", false}}) {
    KernelReport kernel = KernelOf("ort:attention", VerdictKind::kFail, {kKnown});
    kernel.identity.version = version;
    EXPECT_EQ(!Waived(kernel).findings[0].waived.empty(), holds) << version;
  }
}

Case CaseBehindAPast(int64_t q_len) {
  Case c;
  c.problem.causal = true;
  c.problem.q_len = q_len;
  c.problem.kv_len = 3;
  c.problem.diagonal_offset = {1};
  c.storage.past = 1;
  return c;
}

TEST(Waivers, AWaiverNamesTheFaultAndNotTheSignature) {
  KernelReport kernel = KernelOf("ort:attention", VerdictKind::kFail, {});
  for (const char* property : {"equivalence.matches_reference", "heads.labels_come_back"}) {
    kernel.findings.push_back(FindingOf(property, Cause::kValue, "out"));
    kernel.findings.back().finding.smallest = CaseBehindAPast(1);
  }
  kernel = Waived(std::move(kernel), kFault);
  EXPECT_EQ(kernel.findings[0].waived, "F1");
  EXPECT_EQ(kernel.findings[1].waived, "F1");
  EXPECT_EQ(VerdictText(kernel.results[0]), "WAIVED");
}

TEST(Waivers, TheSameSignatureWithoutTheTriggerStillFails) {
  Case not_causal = CaseBehindAPast(1), no_past = CaseBehindAPast(1);
  not_causal.problem.causal = false;
  no_past.storage.past = 0;
  for (const Case& c : {not_causal, no_past, CaseBehindAPast(2)}) {
    ReportedFinding reported = kKnown;
    reported.finding.smallest = c;
    const KernelReport kernel =
        Waived(KernelOf("ort:attention", VerdictKind::kFail, {reported}), kFault);
    EXPECT_EQ(kernel.findings[0].waived, "");
    EXPECT_EQ(ExitOf(kernel), 1);
  }
}

// Two queries do not show the fault; the one that is then asked alone does.
TEST(Waivers, TheTriggerMayLieInADerivedCase) {
  const char* property = "tiling.a_query_alone_equals_itself_among_others";
  ReportedFinding reported = FindingOf(property, Cause::kValue, "out");
  reported.finding.smallest = CaseBehindAPast(2);
  const auto reason_of = [](const ReportedFinding& found) {
    return Waived(KernelOf("ort:mha", VerdictKind::kFail, {found}), kFault).findings[0].waived;
  };
  EXPECT_EQ(reason_of(reported), "F1");
  reported.finding.smallest.problem.causal = false;
  EXPECT_EQ(reason_of(reported), "");
}

bool Holds(const char* condition, const Case& c, const Verdict& verdict = {}) {
  const auto parsed = ParseCaseCondition(condition);
  EXPECT_TRUE(parsed) << parsed.error();
  return parsed && (*parsed)(c, verdict);
}

TEST(CaseConditions, SpeakOfFeaturesSizesAndTypes) {
  const Case c = CaseBehindAPast(1);
  for (const char* condition :
       {"causal", "no mask", "past = 1", "new_keys = 2", "kv_len > q_len", "q_len != kv_len",
        "head_dim <= 1", "q_len < 64", "kv_len >= 3", "dtype = f32", "dtype != f16",
        "scores != biased", "hidden_keys", "no keys_hidden_by_bias", "mask_queries = q_len"}) {
    EXPECT_TRUE(Holds(condition, c)) << condition;
  }
  for (const char* condition : {"no causal", "no past", "mask", "q_len = 2", "kv_len < q_len",
                                "dtype = f16", "scores = biased", "planes > 1"}) {
    EXPECT_FALSE(Holds(condition, c)) << condition;
  }
}

TEST(CaseConditions, SpeakOfTheScoresThatTheDataMake) {
  Case c = CaseBehindAPast(1);
  c.problem.head_dim = 2;
  c.problem.scale = 0.5;
  c.literals[DataTensor::kQ] = Array({1, 1, 1, 2}, 4);
  c.literals[DataTensor::kK] = Array({1, 1, 3, 2}, 1);
  c.literals[DataTensor::kK].At(0, 0, 2, 0) = -3;  // products -12 and 4, their sum -8
  EXPECT_TRUE(Holds("score_span = 8", c));         // from 4 down to -4
  EXPECT_TRUE(Holds("dot_magnitude = 16", c));
}

TEST(CaseConditions, SpeakOfKeysThatEqualTheirValues) {
  Case c = CaseBehindAPast(1);
  c.literals[DataTensor::kK] = c.literals[DataTensor::kV] = Array({1, 1, 3, 1}, 2);
  EXPECT_TRUE(Holds("keys_equal_values", c));
  c.literals[DataTensor::kV].At(0, 0, 2, 0) = 3;
  EXPECT_FALSE(Holds("keys_equal_values", c));
}

TEST(CaseConditions, SpeakOfTheErrorThatWasSeen) {
  Case c = CaseBehindAPast(1);
  c.literals[DataTensor::kV] = Array({1, 1, 3, 1}, -2);
  Verdict verdict;
  EXPECT_TRUE(Holds("relative_error = 0", c, verdict));
  verdict.witness = Witness{{0, 0, 0, 0}, 1, 1.75, 0};
  EXPECT_TRUE(Holds("relative_error = 0.375", c, verdict));
  EXPECT_TRUE(Holds("relative_error_per_key = 0.125", c, verdict));
  EXPECT_TRUE(Holds("value_sum = 6", c, verdict));
  verdict.witness->observed = std::nan("");
  EXPECT_FALSE(Holds("relative_error <= 1000", c, verdict));
}

TEST(CaseConditions, UnknownWordsAreOneLineThatListsTheKnown) {
  for (const char* text : {"casual", "no", "q_len", "q_len ~ 3", "q_len = three", "width = 3",
                           "dtype = f17", "dtype < f16", "q_len = 3 4", ""}) {
    const auto parsed = ParseCaseCondition(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().find('\n'), std::string::npos) << text;
  }
  EXPECT_THAT(ParseCaseCondition("casual").error(), HasSubstr("causal, window"));
}

TEST(Waivers, AnUnexpectedPassIsReported) {
  EXPECT_THAT(Waived(KernelOf("ort:attention", VerdictKind::kPass, {})).idle_waivers,
              ElementsAre(HasSubstr("unexpected pass: 7 cases")));
  EXPECT_THAT(Waived(KernelOf("ort:attention", VerdictKind::kUnsupported, {})).idle_waivers,
              IsEmpty());
  EXPECT_THAT(Waived(KernelOf("tiled", VerdictKind::kPass, {})).idle_waivers, IsEmpty());
}

// Of a waiver for many properties only a run of them all can say that it has no use.
TEST(Waivers, AnUnusedPatternIsReportedOfAWholeRunOnly) {
  KernelReport kernel = KernelOf("ort:attention", VerdictKind::kPass, {});
  EXPECT_THAT(Waived(kernel, kFault).idle_waivers, IsEmpty());
  kernel.results.clear();
  for (const Property& property : AllProperties()) {
    PropertyResult& result = kernel.results.emplace_back();
    result.property = property.id;
    result.verdict = VerdictKind::kPass;
    result.cases[VerdictKind::kPass] = 1;
  }
  EXPECT_THAT(Waived(kernel, kFault).idle_waivers, ElementsAre(HasSubstr("F1")));
  kernel.results[0].verdict = VerdictKind::kInconclusive;  // cut short
  EXPECT_THAT(Waived(kernel, kFault).idle_waivers, IsEmpty());
}

constexpr char kOfModels[] = R"(
[[waiver]]
kernel = "python:*"
versions = "*"
signature = "cache.*/value/logits*"
when = ["cache = paged", "no parents", "largest_chunk > 1"]
reason = "M1"
[[waiver]]
kernel = "python:*"
versions = "*"
signature = "*/value/*"
when = ["mask"]
reason = "K1"
)";

// One file may hold waivers of both: properties and words say which they are.
TEST(Waivers, AModelsFindingIsWaivedByItsOwnWords) {
  const auto waivers = ParseWaivers(kOfModels, "w.toml");
  ASSERT_TRUE(waivers) << waivers.error();
  KernelReport model;
  model.kernel = "python:mine.py:model";
  model.is_model = true;
  const Signature signature{"cache.chunks_equal_one_shot", Cause::kValue, "logits", ""};
  ModelCase c;
  c.tokens = {{1, 2, 3, 4}};
  c.cache = "paged";
  c.chunks = {1, 2};
  EXPECT_EQ(ReasonToWaive(*waivers, model, signature, c, {}), "M1");
  c.chunks = {1, 1};
  EXPECT_EQ(ReasonToWaive(*waivers, model, signature, c, {}), "");
  c.chunks = {2};
  c.cache = "ring";
  EXPECT_EQ(ReasonToWaive(*waivers, model, signature, c, {}), "");
  // Nor do words of models speak of kernels.
  EXPECT_EQ(ReasonToWaive(*waivers, model, signature, Case(), {}), "");
}

TEST(Waivers, AnIdleWaiverOfAModelIsReported) {
  KernelReport model = KernelOf("python:mine.py:model", VerdictKind::kPass, {});
  model.is_model = true;
  EXPECT_THAT(Waived(model, kOfModels).idle_waivers, IsEmpty());
  for (const char* id : {"cache.chunks_equal_one_shot", "cache.beams_go_on_from_their_parents",
                         "cache.fresh_requests_see_nothing_of_others", "cache.bytes_are_linear"}) {
    PropertyResult& result = model.results.emplace_back();
    result.property = id;
    result.verdict = VerdictKind::kPass;
    result.cases[VerdictKind::kPass] = 1;
  }
  EXPECT_THAT(Waived(model, kOfModels).idle_waivers, ElementsAre(HasSubstr("M1")));
}

TEST(ModelConditions, SpeakOfWhatACaseHas) {
  ModelCase c;
  c.tokens = {{1, 2, 3}, {4}};
  c.side = PaddingSide::kLeft;
  Verdict verdict;
  verdict.witness = Witness{{1, 0, 0, 2}, 0, 1, 0};
  const auto holds = [&](const char* condition) {
    const auto parsed = ParseModelCondition(condition);
    EXPECT_TRUE(parsed) << parsed.error();
    return parsed && (*parsed)(c, verdict);
  };
  for (const char* condition :
       {"padding", "no cache", "side = left", "batch = 2", "len >= 3", "position = 0",
        "chunks < batch", "no documents", "cache != ring"}) {
    EXPECT_TRUE(holds(condition)) << condition;
  }
  for (const char* condition : {"cache", "side != left", "len > 3", "parents"}) {
    EXPECT_FALSE(holds(condition)) << condition;
  }
  for (const char* text : {"causal", "side = top", "cache = paged ring", "len = long"}) {
    EXPECT_FALSE(ParseModelCondition(text)) << text;
  }
  EXPECT_THAT(ParseModelCondition("causal").error(), HasSubstr("padding, cache"));
}

// One is shown beside the other, though they differ in nothing but the trigger.
TEST(Waivers, AWaivedFindingDoesNotFoldAnotherAway) {
  ReportedFinding known = kKnown, fresh = kKnown;
  known.waived = "F1";
  fresh.finding.signature.cause_class.clear();
  KernelReport kernel = KernelOf("ort:attention", VerdictKind::kFail, {known, fresh});
  FoldFindings(kernel);
  EXPECT_EQ(kernel.findings.size(), 2u);
}

TEST(Waivers, AVersionMayBeANameBehindAnOperator) {
  const auto waivers = ParseWaivers(
      "[[waiver]]\nkernel = 'ggml:flash'\nversions = '=b10256'\nreason = 'r'\n"
      "signature = 'heads.labels_come_back/value/out*'",
      "w.toml");
  ASSERT_TRUE(waivers) << waivers.error();
  const Signature signature{"heads.labels_come_back", Cause::kValue, "out", ""};
  KernelReport kernel;
  kernel.kernel = "ggml:flash";
  kernel.identity.version = "b10256";
  EXPECT_EQ(ReasonToWaive(*waivers, kernel, signature, Case(), {}), "r");
  kernel.identity.version = "b10300";
  EXPECT_EQ(ReasonToWaive(*waivers, kernel, signature, Case(), {}), "");
}

TEST(Waivers, BadFilesAreOneLineThatNamesThePlace) {
  std::string endless;  // which toml++ would follow to the end of its stack
  for (int n = 0; n < 200000; ++n) endless += "a.";
  const std::pair<std::string, std::string> files[] = {
      {"\n" + endless + "b = 1", "w.toml:2: a key of more than 1000 parts"},
      {"\n[" + endless + "b]", "w.toml:2: a key of more than 1000 parts"},
      {"[[waiver]]\nkernel = 1", "w.toml:2"},
      {"[[waiver]]\nkernal = 'x'", "kernal"},
      {"[[waiver]]\nkernel = 'x'\nreason = ''\nversions = '*'\nsignature = 'a/b'",
       "reason is empty"},
      {"[[waiver]]\nkernel = 'x'\nreason = 'r'\nversions = '*'\nsignature = 'a.b/value'", "a.b"},
      {"[[waiver]]\nkernel = 'x'\nreason = 'r'\nversions = 'new'\nsignature = 'a/b'", "'new'"},
      {"[[waiver]]\nkernel = 'x'\nreason = 'r'\nversions = '*'\nsignature = "
       "'heads.labels_come_back'",
       "property/cause"},
      {"[[waiver]]\nkernel = 'x'\nreason = 'r'\nversions = '*'\nsignature = '*/value*'\n"
       "when = ['casual']",
       "w.toml:6: when: 'casual' is no word"},
      {"[[waiver]]\nkernel = 'x'\nreason = 'r'\nversions = '*'\nsignature = 'none.*/value'",
       "none.*"},
      {"waiver = 3", "waiver"},
      {"[[waiver", "w.toml:1"}};
  for (const auto& [text, part] : files) {
    const auto waivers = ParseWaivers(text, "w.toml");
    ASSERT_FALSE(waivers) << text;
    EXPECT_THAT(waivers.error(), HasSubstr(part)) << text;
    EXPECT_EQ(waivers.error().find('\n'), std::string::npos) << text;
  }
  EXPECT_THAT(ReadWaivers("/nowhere/w.toml").error(), HasSubstr("/nowhere/w.toml"));
  const auto folder = ReadWaivers(testing::TempDir());
  ASSERT_FALSE(folder) << "a folder is no empty file";
  EXPECT_THAT(folder.error(), HasSubstr("folder"));
}

}  // namespace
}  // namespace attest
