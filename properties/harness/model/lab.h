// Where a model is asked: requests in, logits out, each batch of requests one round trip to the model's worker.
// What goes wrong there (a crash, a hang, a refusal of what the contract promises) comes back as the verdict
// that it is, so that a property only speaks of its claim. Callers: the model's properties.
#ifndef ATTEST_HARNESS_MODEL_LAB_H_
#define ATTEST_HARNESS_MODEL_LAB_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
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

struct ModelAnswer;

// The logits at one token, and whose they are where that is known.
struct LogitsRow : std::span<const double> {
  LogitsRow(std::span<const double> values) : span(values) {}     // NOLINT: any row is one
  LogitsRow(const std::vector<double>& values) : span(values) {}  // NOLINT: likewise
  LogitsRow(std::span<const double> values, const ModelAnswer* answer, size_t of_item, size_t at)
      : span(values), of(answer), item(of_item), token(at) {}
  const ModelAnswer* of = nullptr;
  size_t item = 0, token = 0;
};

// One side of a comparison that failed, for a person to look at: what was computed, and where in it the row lies.
struct LogitsSide {
  std::string model;  // as the user named it
  ModelRequest request;
  size_t item = 0, token = 0;
  std::vector<double> logits;
};

// Kept where someone wants to see it: the first two rows that ought to have been the same.
struct LogitsTrace {
  std::optional<std::pair<LogitsSide, LogitsSide>> sides;  // what was due, what was observed
};

// Logits of the tokens of each item, padding left out.
struct ModelAnswer {
  int64_t vocab = 0;
  std::vector<std::vector<double>> logits;  // by item: [tokens, vocab]
  std::vector<int64_t> cache_bytes;         // after the prompt and each chunk
  // Only where the lab has a trace:
  std::shared_ptr<LogitsTrace> trace;
  std::string model;
  ModelRequest request;

  LogitsRow At(size_t item, size_t token) const {
    const auto v = static_cast<size_t>(vocab);
    return {std::span(logits[item]).subspan(token * v, v), this, item, token};
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
  // Whether failures are to be named: it takes tens of calls each. They are unless somebody has enough of them.
  bool wants_cause() const { return wants_cause_; }
  void SetWantsCause(bool wants) { wants_cause_ = wants; }
  // From now on answers say what they answer, so that comparisons can be shown.
  void Keep(std::shared_ptr<LogitsTrace> trace) { trace_ = std::move(trace); }

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
  bool wants_cause_ = true;
  std::shared_ptr<LogitsTrace> trace_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_MODEL_LAB_H_
