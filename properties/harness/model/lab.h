// Where a model is asked: requests in, logits out, each batch of requests one round trip to the model's worker.
// What goes wrong there (a crash, a hang, a refusal of what the contract promises) comes back as the verdict
// that it is, so that a property only speaks of its claim. Callers: the model's properties.
#ifndef ATTEST_HARNESS_MODEL_LAB_H_
#define ATTEST_HARNESS_MODEL_LAB_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/judge/verdict.h"
#include "properties/harness/model/contract.h"
#include "properties/harness/model/model_case.h"
#include "properties/harness/sandbox/session.h"

namespace attest {

// One computation of logits: at once, or through a cache.
struct ModelRequest {
  std::vector<Sequence> tokens, sources;
  PaddingSide side = PaddingSide::kNone;
  int64_t extra = 0;
  int64_t filler = 0;
  std::vector<int64_t> first_position;
  std::string cache;  // empty = at once
  std::vector<int64_t> chunks;
  std::vector<std::vector<int64_t>> parents;
  std::vector<Sequence> decoy;  // tokens of a second cache; as long as tokens
  bool wants_bytes = false;
};

// The case as it stands: at once, without a cache.
ModelRequest AtOnce(const ModelCase& c);
// Through its cache.
ModelRequest Generated(const ModelCase& c);

// Logits of the tokens of each item, padding left out.
struct ModelAnswer {
  int64_t vocab = 0;
  std::vector<std::vector<double>> logits;  // by item: [tokens, vocab]
  std::vector<int64_t> cache_bytes;         // after the prompt and each chunk

  std::span<const double> At(size_t item, size_t token) const {
    const auto v = static_cast<size_t>(vocab);
    return std::span(logits[item]).subspan(token * v, v);
  }
};

// What a batcher made of documents.
struct LearningRows {
  int64_t len = 0;
  std::vector<Sequence> inputs, targets;
  std::vector<std::vector<double>> weights;
};

class ModelLab {
 public:
  // `other`: a model to compare with, or null. Both outlive the lab.
  ModelLab(const ModelContract& contract, KernelSession& session, ModelLab* other = nullptr)
      : contract_(contract), session_(session), other_(other) {}

  const ModelContract& contract() const { return contract_; }
  KernelSession& session() { return session_; }
  ModelLab* other() { return other_; }
  int64_t calls() const { return calls_; }

  // The error is the verdict: FAIL, or UNSUPPORTED.
  tl::expected<std::vector<ModelAnswer>, Verdict> Run(std::span<const ModelRequest> requests);
  tl::expected<ModelAnswer, Verdict> Run(const ModelRequest& request);
  tl::expected<std::vector<LearningRows>, Verdict> Batch(
      std::span<const std::vector<Sequence>> documents, int64_t len);

 private:
  tl::expected<std::vector<CallResult>, Verdict> RunCalls(std::span<const Call> calls);

  const ModelContract& contract_;
  KernelSession& session_;
  ModelLab* other_;
  int64_t calls_ = 0;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_MODEL_LAB_H_
