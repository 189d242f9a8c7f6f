#include "properties/harness/model/lab.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "properties/harness/judge/fault_cause.h"
#include "properties/harness/model/compare_logits.h"
#include "properties/harness/sandbox/model_roles.h"

namespace attest {
namespace {

CallTensor TensorOf(int32_t role, DType dtype, std::vector<int64_t> shape, bool is_output) {
  CallTensor tensor;
  tensor.role = role;
  tensor.dtype = dtype;
  tensor.strides.resize(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) tensor.strides[d - 1] = tensor.strides[d] * shape[d];
  const int64_t elements =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  tensor.image.resize(static_cast<size_t>(elements) * ByteSize(dtype));
  tensor.shape = std::move(shape);
  tensor.is_output = is_output;
  return tensor;
}

CallTensor Integers(int32_t role, std::vector<int64_t> shape, std::span<const int64_t> values) {
  CallTensor tensor = TensorOf(role, DType::kI64, std::move(shape), /*is_output=*/false);
  std::memcpy(tensor.image.data(), values.data(), tensor.image.size());
  return tensor;
}

void AddOption(Call& call, int32_t id, int64_t value) {
  call.options.push_back({id, false, value, 0});
}

int64_t Longest(const std::vector<Sequence>& all) {
  int64_t longest = 0;
  for (const Sequence& one : all) longest = std::max<int64_t>(longest, std::ssize(one));
  return longest;
}

// The column at which a token of a sequence lies in its row. In a generation `tail` tokens come behind the
// prompt, which alone is padded.
int64_t ColumnOf(PaddingSide side, int64_t row_len, int64_t sequence_len, int64_t tail,
                 int64_t token) {
  const int64_t padding = row_len - sequence_len;
  if (side == PaddingSide::kLeft) return padding + token;
  return token < sequence_len - tail ? token : padding + token;
}

// A row for each sequence, padded.
std::vector<int64_t> Padded(const std::vector<Sequence>& all, PaddingSide side, int64_t len,
                            int64_t tail, int64_t filler) {
  std::vector<int64_t> rows(all.size() * static_cast<size_t>(len), filler);
  for (size_t b = 0; b < all.size(); ++b) {
    for (int64_t i = 0; i < std::ssize(all[b]); ++i) {
      const int64_t column = ColumnOf(side, len, std::ssize(all[b]), tail, i);
      rows[b * static_cast<size_t>(len) + static_cast<size_t>(column)] =
          all[b][static_cast<size_t>(i)];
    }
  }
  return rows;
}

void AddSequences(Call& call, const std::vector<Sequence>& all, const ModelRequest& request,
                  int64_t tail, int32_t role, int32_t lengths_role) {
  const int64_t batch = std::ssize(all), len = Longest(all) + request.extra;
  std::vector<int64_t> lengths;
  lengths.reserve(all.size());
  for (const Sequence& one : all) lengths.push_back(std::ssize(one));
  call.tensors.push_back(
      Integers(role, {batch, len}, Padded(all, request.side, len, tail, request.filler)));
  if (lengths_role != 0) call.tensors.push_back(Integers(lengths_role, {batch}, lengths));
}

int64_t TailOf(const ModelRequest& request) {
  return std::accumulate(request.chunks.begin(), request.chunks.end(), int64_t{0});
}

void AddGeneration(Call& call, const ModelRequest& request) {
  const auto* kind = std::ranges::find(kCacheKinds, request.cache);
  AddOption(call, kModelCacheKind, kind - std::begin(kCacheKinds));
  const int64_t batch = std::ssize(request.tokens);
  const int64_t prompt = Longest(request.tokens) + request.extra - TailOf(request);
  std::vector<int64_t> chunks{prompt};
  chunks.insert(chunks.end(), request.chunks.begin(), request.chunks.end());
  const int64_t steps = std::ssize(chunks);
  call.tensors.push_back(Integers(kModelChunks, {steps}, chunks));
  if (!request.parents.empty()) {
    std::vector<int64_t> parents(static_cast<size_t>(batch));
    std::iota(parents.begin(), parents.end(), 0);  // nothing is reordered before the prompt
    for (const auto& one : request.parents) parents.insert(parents.end(), one.begin(), one.end());
    call.tensors.push_back(Integers(kModelParents, {steps, batch}, parents));
  }
  if (!request.decoy.empty()) {
    AddSequences(call, request.decoy, request, TailOf(request), kModelDecoy, 0);
  }
  if (request.wants_bytes) {
    call.tensors.push_back(TensorOf(kModelCacheBytes, DType::kI64, {steps}, /*is_output=*/true));
  }
}

Call CallOf(const ModelRequest& request, const ModelContract& contract) {
  Call call;
  const bool generates = !request.cache.empty();
  AddOption(call, kModelOperation,
            static_cast<int64_t>(generates ? ModelOperation::kGenerate : ModelOperation::kLogits));
  AddOption(call, kModelPadding, static_cast<int64_t>(request.side));
  const int64_t batch = std::ssize(request.tokens), len = Longest(request.tokens) + request.extra;
  call.tensors.push_back(
      TensorOf(kModelLogits, contract.dtype, {batch, len, contract.vocab}, /*is_output=*/true));
  AddSequences(call, request.tokens, request, TailOf(request), kModelTokens, kModelLengths);
  if (!request.sources.empty()) {
    AddSequences(call, request.sources, request, 0, kModelSource, kModelSourceLengths);
  }
  if (!request.first_position.empty()) {
    call.tensors.push_back(Integers(kModelFirstPosition, {batch}, request.first_position));
  }
  if (generates) AddGeneration(call, request);
  return call;
}

ModelAnswer AnswerOf(const ModelRequest& request, const ModelContract& contract,
                     const CallResult& result) {
  ModelAnswer answer;
  answer.vocab = contract.vocab;
  const int64_t len = Longest(request.tokens) + request.extra;
  const size_t size = ByteSize(contract.dtype);
  const std::byte* logits = result.outputs.front().data();
  for (size_t b = 0; b < request.tokens.size(); ++b) {
    const int64_t own = std::ssize(request.tokens[b]);
    std::vector<double>& row = answer.logits.emplace_back();
    for (int64_t i = 0; i < own; ++i) {
      const int64_t column = ColumnOf(request.side, len, own, TailOf(request), i);
      const auto first = (b * static_cast<size_t>(len) + static_cast<size_t>(column)) *
                         static_cast<size_t>(contract.vocab);
      for (size_t v = 0; v < static_cast<size_t>(contract.vocab); ++v) {
        row.push_back(LoadElement(contract.dtype, logits + (first + v) * size));
      }
    }
  }
  if (request.wants_bytes) {
    const std::vector<std::byte>& bytes = result.outputs.back();
    answer.cache_bytes.resize(bytes.size() / sizeof(int64_t));
    std::memcpy(answer.cache_bytes.data(), bytes.data(), bytes.size());
  }
  return answer;
}

Call BatchCall(const std::vector<Sequence>& documents, int64_t len) {
  Call call;
  AddOption(call, kModelOperation, static_cast<int64_t>(ModelOperation::kBatch));
  std::vector<int64_t> tokens, lengths;
  for (const Sequence& document : documents) {
    tokens.insert(tokens.end(), document.begin(), document.end());
    lengths.push_back(std::ssize(document));
  }
  const int64_t rows = std::ssize(tokens) + std::ssize(lengths);
  for (const int32_t role : {kModelInputs, kModelTargets}) {
    call.tensors.push_back(TensorOf(role, DType::kI64, {rows, len}, /*is_output=*/true));
  }
  call.tensors.push_back(TensorOf(kModelWeights, DType::kF32, {rows, len}, /*is_output=*/true));
  call.tensors.push_back(TensorOf(kModelRows, DType::kI64, {1}, /*is_output=*/true));
  call.tensors.push_back(Integers(kModelDocuments, {std::ssize(tokens)}, tokens));
  call.tensors.push_back(Integers(kModelDocumentLengths, {std::ssize(lengths)}, lengths));
  return call;
}

tl::expected<LearningRows, Verdict> RowsOf(const Call& call, const CallResult& result) {
  LearningRows learning;
  learning.len = call.tensors[0].shape[1];
  const int64_t capacity = call.tensors[0].shape[0];
  int64_t rows = 0;
  std::memcpy(&rows, result.outputs[3].data(), sizeof rows);
  if (rows < 0 || rows > capacity) {
    return tl::unexpected(
        ModelFailure(Cause::kValue, "rows_used",
                     fmt::format("rows_used is {}, of at most {} rows", rows, capacity)));
  }
  const auto len = static_cast<size_t>(learning.len);
  for (size_t r = 0; r < static_cast<size_t>(rows); ++r) {
    Sequence inputs(len), targets(len);
    std::vector<double> weights(len);
    std::memcpy(inputs.data(), result.outputs[0].data() + r * len * 8, len * 8);
    std::memcpy(targets.data(), result.outputs[1].data() + r * len * 8, len * 8);
    for (size_t i = 0; i < len; ++i) {
      weights[i] = LoadElement(DType::kF32, result.outputs[2].data() + (r * len + i) * 4);
    }
    learning.inputs.push_back(std::move(inputs));
    learning.targets.push_back(std::move(targets));
    learning.weights.push_back(std::move(weights));
  }
  return learning;
}

// The verdict on a call that gave no values; nullopt where it gave them. All that is asked is promised.
std::optional<Verdict> WhyNoValues(const CallResult& result) {
  if (result.fault) return ModelFailure(CauseOfFault(result.fault->kind), "", result.fault->detail);
  if (result.status == CallStatus::kOk) return std::nullopt;
  const char* how = result.status == CallStatus::kUnsupported       ? "refused a call"
                    : result.status == CallStatus::kInvalidArgument ? "called a call malformed"
                                                                    : "failed in a call";
  return ModelFailure(Cause::kRefused, "",
                      fmt::format("the model {} that its contract promises to take: {}", how,
                                  result.message.empty() ? "no reason given" : result.message));
}

}  // namespace

ModelRequest AtOnce(const ModelCase& c) {
  ModelRequest request;
  request.tokens = c.tokens;
  request.sources = c.sources;
  request.side = c.side;
  request.extra = c.extra;
  request.filler = c.filler;
  request.first_position = c.first_position;
  return request;
}

ModelRequest Generated(const ModelCase& c) {
  ModelRequest request = AtOnce(c);
  request.first_position.clear();
  request.cache = c.cache;
  request.chunks = c.chunks;
  request.parents = c.parents;
  return request;
}

tl::expected<std::vector<CallResult>, Verdict> ModelLab::RunCalls(std::span<const Call> calls) {
  calls_ += std::ssize(calls);
  std::vector<CallResult> results = session_.Run(calls);
  for (const CallResult& result : results) {
    if (auto verdict = WhyNoValues(result)) return tl::unexpected(std::move(*verdict));
  }
  return results;
}

tl::expected<std::vector<ModelAnswer>, Verdict> ModelLab::Run(
    std::span<const ModelRequest> requests) {
  std::vector<Call> calls;
  for (const ModelRequest& request : requests) calls.push_back(CallOf(request, contract_));
  const auto results = RunCalls(calls);
  if (!results) return tl::unexpected(results.error());
  std::vector<ModelAnswer> answers;
  for (size_t i = 0; i < requests.size(); ++i) {
    answers.push_back(AnswerOf(requests[i], contract_, (*results)[i]));
    if (!trace_) continue;
    answers.back().trace = trace_;
    answers.back().model = session_.spec().text;
    answers.back().request = requests[i];
  }
  return answers;
}

tl::expected<ModelAnswer, Verdict> ModelLab::Run(const ModelRequest& request) {
  auto answers = Run(std::span(&request, 1));
  if (!answers) return tl::unexpected(answers.error());
  return std::move(answers->front());
}

tl::expected<std::vector<LearningRows>, Verdict> ModelLab::Batch(
    std::span<const std::vector<Sequence>> documents, int64_t len) {
  std::vector<Call> calls;
  for (const auto& one : documents) calls.push_back(BatchCall(one, len));
  const auto results = RunCalls(calls);
  if (!results) return tl::unexpected(results.error());
  std::vector<LearningRows> all;
  for (size_t i = 0; i < calls.size(); ++i) {
    auto rows = RowsOf(calls[i], (*results)[i]);
    if (!rows) return tl::unexpected(rows.error());
    all.push_back(std::move(*rows));
  }
  return all;
}

}  // namespace attest
