#include "properties/harness/cli/power_subjects.h"

#include <algorithm>
#include <string>

#include "impl/mutants/hostile.h"
#include "impl/transformer/faults.h"

namespace attest {
namespace {

// The plain kernels of the mutants, and kernels that share no code with them. A tile of 1 has a seam at every
// key, one of 5 divides none of the usual sizes.
constexpr const char* kCorrect[] = {"mutant",       "mutant:blocked", "tiled",    "tiled?tile=1",
                                    "tiled?tile=5", "tiled:fast",     "reference"};

// Models of every kind, position and cache.
constexpr const char* kCorrectModels[] = {"model:decoder",
                                          "model:gpt",
                                          "model:stream",
                                          "model:chunks",
                                          "model:alibi",
                                          "model:windowed",
                                          "model:paged",
                                          "model:encoder",
                                          "model:encoder?positions=none",
                                          "model:encoder-decoder",
                                          "model:decoder?dtype=f64"};

std::string_view NameOf(transformer::Base base) {
  switch (base) {
    case transformer::Base::kDecoder:
      return "decoder";
    case transformer::Base::kGpt:
      return "gpt";
    case transformer::Base::kAlibi:
      return "alibi";
    case transformer::Base::kWindowed:
      return "windowed";
    case transformer::Base::kPaged:
      return "paged";
    case transformer::Base::kEncoder:
      return "encoder";
    case transformer::Base::kEncoderDecoder:
      return "both";
    case transformer::Base::kStream:
      return "stream";
    case transformer::Base::kChunks:
      return "chunks";
    case transformer::Base::kBatcher:
      break;
  }
  return "batcher";
}

constexpr std::string_view kDoneToTensors[] = {"value",     "input_changed", "stray_write",
                                               "unwritten", "read_fault",    "write_fault",
                                               "late_write"};

bool IsDoneToTensors(const Misdeed& misdeed) {
  return std::ranges::any_of(kDoneToTensors,
                             [&](std::string_view cause) { return IsAmong(cause, misdeed.cause); });
}

}  // namespace

Subject SubjectOf(const Mutant& mutant) {
  Subject subject;
  subject.kernel = "mutant:" + std::string(mutant.id);
  subject.id = mutant.id;
  subject.sort = mutant.is_null() ? SubjectSort::kNull : SubjectSort::kFault;
  subject.kind = mutant.kind;
  subject.causes = mutant.cause;
  return subject;
}

std::vector<Subject> PowerSubjects() {
  std::vector<Subject> subjects;
  for (const Mutant& mutant : Mutants()) subjects.push_back(SubjectOf(mutant));
  for (const Misdeed& misdeed : Misdeeds()) {
    if (!IsDoneToTensors(misdeed)) continue;
    const std::string kernel = "hostile:" + std::string(misdeed.id);
    subjects.push_back({kernel, kernel, SubjectSort::kHostile, "", std::string(misdeed.cause)});
  }
  for (const char* kernel : kCorrect) {
    subjects.push_back({kernel, kernel, SubjectSort::kCorrect, "", ""});
  }
  return subjects;
}

std::vector<Subject> ModelSubjects() {
  std::vector<Subject> subjects;
  for (const transformer::Mutant& mutant : transformer::Mutants()) {
    const std::string id(mutant.id);
    subjects.push_back({"model-mutant:" + id, id, SubjectSort::kFault,
                        std::string(NameOf(mutant.base)), "", /*is_model=*/true});
  }
  for (const char* model : kCorrectModels) {
    subjects.push_back({model, model, SubjectSort::kCorrect, "", "", /*is_model=*/true});
  }
  return subjects;
}

}  // namespace attest
