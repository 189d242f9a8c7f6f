#include "properties/harness/probe/probe.h"

#include <algorithm>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attest/kernel.h"
#include "impl/attention/contract_json.h"
#include "properties/harness/probe/probe_text.h"
#include "properties/harness/sandbox/session.h"

namespace attest::probe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr int kMostCalls = 200;

std::unique_ptr<KernelSession> Open(const std::string& kernel) {
  const auto spec = ResolveKernel(kernel);
  EXPECT_TRUE(spec) << spec.error();
  auto session = KernelSession::Open(*spec);
  EXPECT_TRUE(session) << session.error();
  return std::move(*session);
}

Contract Parsed(const std::string& json) {
  auto contract = ParseContract(json);
  EXPECT_TRUE(contract) << contract.error();
  return contract.value_or(Contract{});
}

CallRunner RunnerOf(KernelSession& session) {
  return [&session](const Call& call) { return session.Run(std::span(&call, 1)).front(); };
}

ProbeReport ProbeKernel(const std::string& kernel, const Contract& declared) {
  const auto session = Open(kernel);
  Lab lab(RunnerOf(*session));
  return Probe(lab, declared);
}

const ProbeLine& LineOf(const ProbeReport& report, const std::string& topic) {
  static const ProbeLine kNone;
  const auto found = std::find_if(report.lines.begin(), report.lines.end(),
                                  [&](const ProbeLine& line) { return line.topic == topic; });
  EXPECT_NE(found, report.lines.end()) << topic;
  return found == report.lines.end() ? kNone : *found;
}

bool Has(const Call& call, int32_t role) {
  return std::any_of(call.tensors.begin(), call.tensors.end(),
                     [&](const CallTensor& tensor) { return tensor.role == role; });
}

// What of `found` differs from what `due` fixes. What a contract leaves open, what no feature of it
// brings up and what no experiment decides is filled in from the contract.
std::vector<std::string> Missed(Contract found, const Contract& due) {
  if (due.semantics.empty_row == EmptyRow::kUnspecified) {
    found.semantics.empty_row = EmptyRow::kUnspecified;
  }
  if (due.semantics.lse_empty_row == LseEmptyRow::kUnspecified) {
    found.semantics.lse_empty_row = LseEmptyRow::kUnspecified;
  }
  if (due.padded_query_rows == PaddedQueryRows::kUnspecified) {
    found.padded_query_rows = PaddedQueryRows::kUnspecified;
  }
  if (!due.Has(Feature::kMask)) found.mask_true_means = due.mask_true_means;
  if (!due.Has(Feature::kWindow)) {
    found.window_counts = due.window_counts;
    found.window_sides = due.window_sides;
  }
  const bool adds = due.Has(Feature::kBias) || due.Has(Feature::kAlibi);
  if (!due.Has(Feature::kSoftcap) || !adds) {
    found.semantics.softcap_order = due.semantics.softcap_order;
  }
  // A plug-in on our glue sees no rank.
  if (!due.Has(Feature::kMaskRanks)) found.features.erase(Feature::kMaskRanks);
  for (const auto& promise : due.poison_safe) EXPECT_EQ(found.poison_safe.count(promise), 1u);
  found.poison_safe = due.poison_safe;
  EXPECT_GE(found.visible_nan_propagates, due.visible_nan_propagates);
  found.visible_nan_propagates = due.visible_nan_propagates;
  found.bits_invariant = due.bits_invariant;
  found.concurrent_calls = due.concurrent_calls;
  if (found.strides == Strides::kAny) found.layouts = due.layouts;  // it includes them all
  found.min_alignment = due.min_alignment;
  found.limits = due.limits;
  found.numerics = due.numerics;
  std::vector<std::string> fields;
  for (const ContractDifference& d : DifferencesOf(due, found)) {
    fields.push_back(fmt::format("{}: due {}, found {} {}", d.field, d.a, d.b, SetChanges(d)));
  }
  return fields;
}

// The emulation takes a past with or without its present, which is more than a contract that excludes
// one of them asks for.
Contract WithAnyPast(Contract contract) {
  contract.excludes.erase(Exclusion::kPastWithoutPresent);
  return contract;
}

// Two diagonals that a call chooses between are told apart from one another on 2 x 5, not from key
// lengths; and without key lengths the rules by kv_len and by key length are one.
Contract Distinguishable(Contract contract) {
  contract = WithAnyPast(std::move(contract));
  auto& rules = contract.causal_offset;
  const bool several = rules.size() > 1;
  if ((several || !contract.Has(Feature::kKeyLengths)) &&
      rules.erase(CausalOffset::kKeyLengthMinusQLen)) {
    rules.insert(CausalOffset::kKvLenMinusQLen);
  }
  return contract;
}

class PublishedContractTest : public testing::TestWithParam<std::string> {};

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const NamedContract& named : NamedContracts()) names.emplace_back(named.name);
  return names;
}

std::string TestName(const testing::TestParamInfo<std::string>& parameter) {
  std::string name = parameter.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, PublishedContractTest, testing::ValuesIn(AllNames()), TestName);

TEST_P(PublishedContractTest, IsRecoveredFromAKernelThatDeclaresIt) {
  const Contract due = *PublishedContract(GetParam());
  const ProbeReport report = ProbeKernel("reference?contract=" + GetParam(), due);
  ASSERT_TRUE(report.answered) << report.refusal;
  EXPECT_LT(report.calls, kMostCalls);
  EXPECT_FALSE(report.contradicts()) << ReportText(GetParam(), report, due);
  EXPECT_THAT(Missed(WithAnyPast(report.proposed), WithAnyPast(due)), IsEmpty());
  EXPECT_EQ(report.proposed.name, GetParam());
}

TEST_P(PublishedContractTest, IsRecoveredFromAKernelThatDeclaresNothing) {
  const Contract due = *PublishedContract(GetParam());
  const ProbeReport report =
      ProbeKernel("reference?contract=" + GetParam(), Parsed(R"({"dtypes": ["f64"]})"));
  ASSERT_TRUE(report.answered) << report.refusal;
  EXPECT_LT(report.calls, kMostCalls);
  EXPECT_THAT(Missed(Distinguishable(report.proposed), Distinguishable(due)), IsEmpty());
}

struct Lie {
  const char* follows;
  const char* declares;
  const char* topic;
  const char* declared;
  const char* observed;
};

TEST(ProbeTest, WrongDeclarationsAreContradicted) {
  const Lie kLies[] = {
      {"torch-mha", "torch-sdpa-2.5", "mask polarity", "attend", "hide"},
      {"mlx", "torch-sdpa-2.5", "causal alignment", "zero", "kv_len_minus_q_len"},
      {"torch-sdpa-2.5", "mlx", "causal alignment", "kv_len_minus_q_len", "zero"},
      {"onnx-attention-24", "flash-attention-2", "causal alignment", "key_length_minus_q_len",
       "by_inputs"},
      {"cudnn", "flash-attention-2", "window counts", "keys_beside_diagonal", "keys_with_diagonal"},
      {"openvino-13", "torch-sdpa-2.5", "empty row", "zero", "nan"},
      {"jax", "torch-sdpa-2.5", "empty row", "zero", "mean_value"},
      {"jax", "torch-sdpa-2.5", "masking value", "-inf", "replace by -2.3819764e+38"},
      {"ort-mha", "transformer-engine", "masking value", "replace by -10000", "add -10000"},
      {"flashinfer", "flash-attention-2", "lse", "natural", "base2"},
      {"cudnn", "flash-attention-2", "lse of an empty row", "+inf", "-inf"},
      {"onnx-attention-23-2025", "onnx-attention-23", "softcap order", "before_bias", "after_bias"},
      {"torch-sdpa-2.5", "onnx-attention-23", "softcap", "offered", "refused"},
      {"torch-sdpa-2.5", "flash-attention-2", "lse", "natural", "none"},
      {"ort-gqa", "attest-1", "causal calls", "optional", "always"},
      {"vllm", "flash-attention-2", "window sides", "both", "left_if_causal"},
      {"flashinfer", "flash-attention-2", "window sides", "both", "left"},
      {"torch-sdpa-2.5", "jax", "causal_with_mask", "works", "refused"},
  };
  for (const Lie& lie : kLies) {
    SCOPED_TRACE(fmt::format("{} as {}", lie.follows, lie.declares));
    const ProbeReport report = ProbeKernel(fmt::format("reference?contract={}", lie.follows),
                                           *PublishedContract(lie.declares));
    EXPECT_TRUE(report.contradicts());
    const ProbeLine& line = LineOf(report, lie.topic);
    EXPECT_EQ(line.agreement, Agreement::kContradicts);
    EXPECT_EQ(line.declared, lie.declared);
    EXPECT_EQ(line.observed, lie.observed);
    EXPECT_FALSE(line.evidence.empty());
  }
}

struct Mutated {
  const char* mutant;
  const char* topic;
  const char* observed;
};

TEST(ProbeTest, FaultsOfConventionShow) {
  const Mutated kFaults[] = {
      {"mutant:kv-head-modulo", "kv head mapping", "modulo"},
      {"mutant:empty-row-without-guard", "empty row", "nan"},
      {"mutant:lse-base-2", "lse", "base2"},
      {"mutant:window-left-one-fewer", "window counts", "keys_with_diagonal"},
      {"mutant:diagonal-top-left", "causal alignment", "zero"},
      {"mutant:poison-through-zero", "poison v:mask", "leaks"},
      {"mutant:zeros", "plain attention", "another function"},
  };
  for (const Mutated& fault : kFaults) {
    SCOPED_TRACE(fault.mutant);
    const ProbeReport report = ProbeKernel(fault.mutant, *PublishedContract("attest-1"));
    EXPECT_EQ(LineOf(report, fault.topic).observed, fault.observed);
    EXPECT_TRUE(report.contradicts());
  }
}

TEST(ProbeTest, ACrashLeavesItsConventionUnknownAndTheRestGoesOn) {
  const auto session = Open("reference?contract=torch-mha");
  const CallRunner run = RunnerOf(*session);
  Lab lab([&](const Call& call) {
    if (!Has(call, ATTEST_ROLE_MASK)) return run(call);
    CallResult result;
    result.fault = Fault{FaultKind::kCrash, 0, {}, 0, "died of signal 11"};
    return result;
  });
  const ProbeReport report = Probe(lab, *PublishedContract("torch-mha"));
  EXPECT_EQ(LineOf(report, "mask").observed, "unknown: crashed");
  EXPECT_EQ(LineOf(report, "mask").evidence, "died of signal 11");
  EXPECT_EQ(LineOf(report, "mask").agreement, Agreement::kContradicts);
  EXPECT_EQ(LineOf(report, "bias polarity").observed, "added");
  EXPECT_EQ(LineOf(report, "rerun").observed, "same bits");
}

TEST(ProbeTest, AKernelThatHangsIsAskedThreeTimes) {
  Lab lab([](const Call&) {
    CallResult result;
    result.fault = Fault{FaultKind::kHang, 0, {}, 0, "no answer in 2000 ms"};
    return result;
  });
  const ProbeReport report = Probe(lab, *PublishedContract("attest-1"));
  EXPECT_FALSE(report.answered);
  EXPECT_EQ(report.calls, 3);
  EXPECT_TRUE(report.contradicts());
  EXPECT_THAT(ReportText("k", report, Contract{}), HasSubstr("no answer in 2000 ms"));
}

TEST(ProbeTest, AKernelThatRefusesEverythingContradictsNothing) {
  Lab lab([](const Call&) {
    CallResult result;
    result.status = CallStatus::kUnsupported;
    result.message = "not today";
    return result;
  });
  const ProbeReport report = Probe(lab, *PublishedContract("jax"));
  EXPECT_FALSE(report.answered);
  EXPECT_FALSE(report.contradicts());
  EXPECT_EQ(report.refusal, "not today");
}

CallResult Refused() {
  CallResult result;
  result.status = CallStatus::kUnsupported;
  return result;
}

// Every element of every output is `byte`s.
CallResult Filled(const Call& call, std::byte byte) {
  CallResult result;
  result.status = CallStatus::kOk;
  for (const CallTensor& tensor : call.tensors) {
    if (tensor.is_output) result.outputs.emplace_back(tensor.image.size(), byte);
  }
  return result;
}

// What adapters of other systems may do: the probe ends, with what it could find out.
TEST(ProbeTest, NoAnswerIsTooOddForIt) {
  const auto session = Open("reference?contract=ort-gqa");
  const CallRunner right = RunnerOf(*session);
  int count = 0;
  const std::pair<const char*, CallRunner> kKernels[] = {
      {"refuses all but the plainest call",
       [](const Call& call) {
         const bool plain = call.tensors.size() == 4 && call.options.size() == 1;
         return plain ? Filled(call, std::byte{0}) : Refused();
       }},
      {"gives zeros for everything", [](const Call& call) { return Filled(call, std::byte{0}); }},
      {"gives NaN for everything", [](const Call& call) { return Filled(call, std::byte{0xFF}); }},
      {"gives one output too few",
       [](const Call& call) {
         CallResult result = Filled(call, std::byte{0});
         result.outputs.pop_back();
         return result;
       }},
      {"answers every second call",
       [&](const Call& call) { return ++count % 2 == 0 ? right(call) : Refused(); }},
      {"answers causal calls of one row alone",
       [&](const Call& call) { return call.tensors[0].shape[2] > 2 ? Refused() : right(call); }},
  };
  for (const auto& [name, run] : kKernels) {
    SCOPED_TRACE(name);
    for (const char* declared : {"attest-1", "ort-gqa"}) {
      Lab lab(run);
      const ProbeReport report = Probe(lab, *PublishedContract(declared));
      EXPECT_LT(report.calls, kMostCalls);
      EXPECT_FALSE(ReportText(name, report, *PublishedContract(declared)).empty());
      EXPECT_FALSE(ReportJson(name, report).empty());
    }
  }
}

TEST(ProbeTest, AKernelThatIsCausalWithoutBeingAskedIsFoundOut) {
  const auto session = Open("reference?contract=torch-sdpa-2.5");
  const CallRunner run = RunnerOf(*session);
  Lab lab([&](const Call& call) {
    Call causal = call;
    std::erase_if(causal.options, [](const CallOption& o) { return o.id == ATTEST_OPTION_CAUSAL; });
    causal.options.push_back({ATTEST_OPTION_CAUSAL, false, 1, 0});
    return run(causal);
  });
  const ProbeReport report = Probe(lab, *PublishedContract("torch-sdpa-2.5"));
  const ProbeLine& line = LineOf(report, "causal calls");
  EXPECT_EQ(line.observed, "always");
  EXPECT_EQ(line.agreement, Agreement::kContradicts);
  EXPECT_EQ(LineOf(report, "causal alignment").observed, "zero");
  EXPECT_TRUE(report.proposed.IsAlwaysCausal());
}

// Where no input decides the diagonal, the rule by inputs is the one from the top left.
TEST(ProbeTest, RulesThatNothingTellsApartAgree) {
  const auto session = Open("reference?contract=onnx-attention-23");
  const CallRunner run = RunnerOf(*session);
  Lab lab([&](const Call& call) {
    if (!Has(call, ATTEST_ROLE_PAST_K)) return run(call);
    CallResult result;
    result.status = CallStatus::kUnsupported;
    return result;
  });
  const ProbeReport report = Probe(lab, *PublishedContract("onnx-attention-23"));
  EXPECT_EQ(LineOf(report, "causal alignment").agreement, Agreement::kAgrees);
}

TEST(ProbeTest, ARefusalOfFewerKeysThanQueriesGetsItsWord) {
  Contract contract = *PublishedContract("flash-attention-2");
  const auto session = Open("reference?contract=flash-attention-2");
  const CallRunner run = RunnerOf(*session);
  const CallRunner refusing = [&](const Call& call) {
    const auto rows = [&](int32_t role) {
      const CallTensor& tensor = *std::ranges::find(call.tensors, role, &CallTensor::role);
      return tensor.shape[1] * tensor.shape[2];  // heads times rows, in either order
    };
    return rows(ATTEST_ROLE_Q) > rows(ATTEST_ROLE_K) ? Refused() : run(call);
  };
  Lab undeclared(refusing);
  const ProbeReport found = Probe(undeclared, contract);
  EXPECT_EQ(LineOf(found, "fewer_keys_than_queries").agreement, Agreement::kContradicts);
  EXPECT_TRUE(found.proposed.Excludes(Exclusion::kFewerKeysThanQueries));
  contract.excludes.insert(Exclusion::kFewerKeysThanQueries);
  Lab declared(refusing);
  EXPECT_EQ(LineOf(Probe(declared, contract), "fewer_keys_than_queries").agreement,
            Agreement::kAgrees);
}

// Padding left unwritten is reported by the sandbox as a fault of the call.
TEST(ProbeTest, UnwrittenPaddingIsAnAnswer) {
  const auto session = Open("reference?contract=jax");
  const CallRunner run = RunnerOf(*session);
  Lab lab([&](const Call& call) {
    CallResult result = run(call);
    if (Has(call, ATTEST_ROLE_QUERY_LENGTHS)) {
      result.fault = Fault{FaultKind::kUnwritten, ATTEST_ROLE_OUT, {0, 0, 2, 0}, 0, "unwritten"};
    }
    return result;
  });
  const ProbeReport report = Probe(lab, *PublishedContract("jax"));
  EXPECT_EQ(LineOf(report, "padded query rows").observed, "unwritten");
  EXPECT_EQ(report.proposed.padded_query_rows, PaddedQueryRows::kUnwritten);
  EXPECT_TRUE(report.proposed.Has(Feature::kQueryLengths));
}

TEST(ProbeTest, AKernelWhoseAnswersVaryIsNotDeterministic) {
  const auto session = Open("reference?contract=flash-attention-2");
  const CallRunner run = RunnerOf(*session);
  int calls = 0;
  Lab lab([&](const Call& call) {
    CallResult result = run(call);
    if (!result.outputs.empty()) result.outputs[0].back() = std::byte(++calls % 2);
    return result;
  });
  const ProbeReport report = Probe(lab, *PublishedContract("flash-attention-2"));
  EXPECT_EQ(LineOf(report, "rerun").observed, "other bits");
  EXPECT_EQ(LineOf(report, "rerun").agreement, Agreement::kContradicts);
  EXPECT_FALSE(report.proposed.Promises(Invariance::kRerun));
}

TEST(ProbeTest, TheReportSaysWhatIsContradictedAndProposesAContract) {
  const Contract declared = *PublishedContract("torch-sdpa-2.5");
  const ProbeReport report = ProbeKernel("reference?contract=torch-mha", declared);
  const std::string text = ReportText("mine", report, declared);
  EXPECT_THAT(text, HasSubstr("declared attend, observed hide"));
  EXPECT_THAT(text, HasSubstr("nearest to torch-mha"));
  EXPECT_THAT(text, HasSubstr(fmt::format("{} calls", report.calls)));
  EXPECT_THAT(text, Not(HasSubstr("nothing declared is contradicted")));
  const std::string json = ReportJson("mine", report);
  EXPECT_THAT(json, HasSubstr(R"("topic":"mask polarity","observed":"hide","declared":"attend")"));
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 1);
}

}  // namespace
}  // namespace attest::probe
