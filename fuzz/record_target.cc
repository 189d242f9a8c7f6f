// The program around a target of records (target.h): opens the kernels, decodes, judges, and hands
// libFuzzer the mutations of mutator.h.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "fuzz/findings.h"
#include "fuzz/guide.h"
#include "fuzz/kernels.h"
#include "fuzz/mutator.h"
#include "fuzz/offered_case.h"
#include "fuzz/status.h"
#include "fuzz/target.h"
#include "impl/reference/extended_reference.h"
#include "properties/harness/case/bytes.h"
#include "properties/harness/case/random.h"
#include "properties/harness/case/slice.h"

// Of libFuzzer; absent where a plain main replays.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max);

namespace attest {
namespace {

// How many claims are tried until one says something about the case.
constexpr size_t kTries = 4;

std::vector<const Property*> FindProperties(const std::vector<std::string_view>& names) {
  std::vector<const Property*> found;
  for (const Property& property : AllProperties()) {
    const bool wanted = std::ranges::any_of(names, [&](std::string_view name) {
      return name.ends_with('.') ? property.id.starts_with(name) : property.id == name;
    });
    if (wanted) found.push_back(&property);
  }
  if (found.empty()) GiveUp("the target names no property");
  return found;
}

// Shows the evidence to the guide on its way to the judge.
class GuidedRunner : public CallRunner {
 public:
  explicit GuidedRunner(CallRunner& inner) : inner_(inner) {}
  std::optional<Unable> WhyUnable(const CallSetting& setting) override {
    return inner_.WhyUnable(setting);
  }
  tl::expected<std::vector<CallResult>, Unable> Run(const CallSetting& setting,
                                                    std::span<const Call> calls) override {
    return inner_.Run(setting, calls);
  }
  void OnEvidence(const Evidence& evidence) override { GuideByError(evidence); }

 private:
  CallRunner& inner_;
};

// ATTEST_FUZZ_ONLY=reference computes the reference of each case and judges nothing: what a target's
// speed is measured against.
bool IsReferenceOnly() {
  static const bool kIsOnly = [] {
    const char* text = std::getenv("ATTEST_FUZZ_ONLY");
    return text != nullptr && std::string_view(text) == "reference";
  }();
  return kIsOnly;
}

class Program {
 public:
  Program()
      : kernels_(OpenKernels(TheTarget().kernels)),
        properties_(FindProperties(TheTarget().properties)) {}

  const Contract& contract() const { return kernels_.front().contract; }

  void TestOneCase(const Case& decoded) {
    CountExecution();
    // By the seed, which shrinking leaves alone: the same input is always judged alike.
    const uint64_t turn = MixBits(decoded.recipe.seed);
    FuzzedKernel& kernel = kernels_[turn % kernels_.size()];
    const Case c = Prepare(decoded, kernel.contract);
    if (IsReferenceOnly()) {
      ReferenceFor(c.problem, Materialise(c), kernel.contract);
      return;
    }
    GuideByBins(c);
    for (size_t n = 0; n < std::min(kTries, properties_.size()); ++n) {
      const Property& property = *properties_[(turn / 64 + n) % properties_.size()];
      if (Judge(property, c, kernel)) return;
    }
  }

 private:
  static Case Prepare(const Case& decoded, const Contract& contract) {
    Case narrowed = TheTarget().narrow(decoded);
    const Case& base = Validate(narrowed) ? decoded : narrowed;
    return OfferedCase(base, contract);
  }

  // False where the property says nothing about the case.
  bool Judge(const Property& property, const Case& c, FuzzedKernel& kernel) {
    GuidedRunner runner(*kernel.runner);
    const CaseResult result = RunCase(
        property, c, kernel.contract, runner,
        [&](const Signature& signature) { return findings_.WantsCause(kernel, signature); });
    for (const Failure& failure : result.failures) findings_.Consider(failure, kernel);
    return result.applied && result.verdict.kind != VerdictKind::kUnsupported;
  }

  std::vector<FuzzedKernel> kernels_;
  std::vector<const Property*> properties_;
  Findings findings_;
};

Program& TheProgram() {
  // Never destroyed: kernels keep threads, and the process ends by abort as often as not.
  static Program& program = *new Program;
  return program;
}

size_t MutateBytes(uint8_t* data, size_t size, size_t max) {
  return LLVMFuzzerMutate == nullptr ? size : LLVMFuzzerMutate(data, size, max);
}

size_t Store(const CaseRecord& record, uint8_t* data, size_t max) {
  const size_t size = std::min(max, record.size());
  std::memcpy(data, record.data(), size);
  return size;
}

// ATTEST_FUZZ_MUTATE=random leaves all that was found behind and starts from nothing each time: what
// guided search is measured against.
bool StartsFromNothing() {
  static const bool kStarts = [] {
    const char* text = std::getenv("ATTEST_FUZZ_MUTATE");
    return text != nullptr && std::string_view(text) == "random";
  }();
  return kStarts;
}

}  // namespace

Case CutDown(Case c, const Sizes& most) {
  const auto is_bearable = [&] {
    const Problem& p = c.problem;
    return p.batch * p.q_heads * p.q_len * p.kv_len * (p.head_dim + p.value_dim) <= most.work;
  };
  const auto cut = [&](Axis axis, int64_t size) {
    if (SizeOf(c.problem, axis) > size && !is_bearable()) c = Select(c, axis, IndexRange(0, size));
  };
  cut(Axis::kBatch, most.batch);
  cut(Axis::kQLen, most.q_len);
  cut(Axis::kKvLen, most.kv_len);
  cut(Axis::kHeadDim, most.dim);
  cut(Axis::kValueDim, most.dim);
  if (is_bearable()) return c;
  return SelectHeads(c, IndexRange(0, std::min(c.problem.kv_heads, most.kv_heads)),
                     std::min(c.problem.heads_per_kv_head(), most.ratio));
}

}  // namespace attest

// Kernels are opened before the first input, so that the coverage of a library loaded here has its
// place from the start.
extern "C" int LLVMFuzzerInitialize(int*, char***) {
  attest::TheProgram();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  attest::TheProgram().TestOneCase(attest::DecodeCase({data, size}));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max, unsigned seed) {
  using namespace attest;
  if (StartsFromNothing()) return Store(RandomRecord(seed), data, max);
  const MutatorSetting setting{TheProgram().contract(), MutateBytes};
  return Store(MutateRecord({data, size}, seed, setting), data, max);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b,
                                            size_t b_size, uint8_t* out, size_t max,
                                            unsigned seed) {
  using namespace attest;
  if (StartsFromNothing()) return Store(RandomRecord(seed), out, max);
  return Store(CrossRecords({a, a_size}, {b, b_size}, seed), out, max);
}
