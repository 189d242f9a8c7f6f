#include "impl/transformer/any_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "impl/tiled/tiled.h"
#include "impl/transformer/batcher.h"
#include "impl/transformer/kernel_attention.h"
#include "impl/transformer/session.h"

namespace attest::transformer {
namespace {

// Keys a tile, of impl/tiled and OnlineAttention as they are called here.
constexpr int64_t kTile = 64;

// The batcher's tokens of padding, and behind each document of a stream; no document has them.
constexpr int64_t kPadding = 0, kEndOfDocument = 1;

CallError Invalid(std::string message) {
  return {ATTEST_INVALID_ARGUMENT, std::move(message)};
}

tl::expected<Tokens, CallError> ReadTokens(const attest_tokens& from, std::string_view name) {
  if (from.batch < 0 || from.len < 0 || (from.batch > 0 && from.lengths == nullptr) ||
      (from.batch > 0 && from.len > 0 && from.tokens == nullptr)) {
    return tl::unexpected(Invalid(fmt::format("{}: sizes or pointers are missing", name)));
  }
  Tokens tokens;
  tokens.batch = from.batch;
  tokens.len = from.len;
  for (int64_t b = 0; b < from.batch; ++b) {
    const int64_t length = from.lengths[b];
    if (length < 1 || length > from.len ||
        (from.padding == ATTEST_PADDING_NONE && length != from.len)) {
      return tl::unexpected(
          Invalid(fmt::format("{}: item {} has length {} of {}", name, b, length, from.len)));
    }
    tokens.begin.push_back(from.padding == ATTEST_PADDING_LEFT ? from.len - length : 0);
    tokens.end.push_back(tokens.begin.back() + length);
  }
  if (tokens.rows() > 0) tokens.ids.assign(from.tokens, from.tokens + tokens.rows());
  return tokens;
}

std::string_view CacheWord(CacheKind kind) {
  switch (kind) {
    case CacheKind::kContiguous:
      return "contiguous";
    case CacheKind::kPaged:
      return "paged";
    case CacheKind::kRing:
      return "ring";
  }
  return "";
}

std::string_view KindWord(Kind kind) {
  switch (kind) {
    case Kind::kDecoder:
      return "decoder";
    case Kind::kEncoder:
      return "encoder";
    case Kind::kEncoderDecoder:
      return "encoder_decoder";
  }
  return "";
}

// What a model says of its positions; nothing where there is nothing to say.
std::string_view PositionsWord(const Config& config) {
  switch (config.positions) {
    case Positions::kNone:
      return config.kind == Kind::kEncoder ? "none" : "";
    case Positions::kSinusoidal:
    case Positions::kLearned:
      return "absolute";
    default:
      return "relative";
  }
}

// Adds what model.h's contract says of a cache.
void AddCache(const Config& config, size_t element_size, nlohmann::json& contract) {
  contract["caches"] = {CacheWord(config.cache)};
  contract["reorder"] = true;
  auto& growth = contract["cache_bytes"];
  growth["per_token"] = 2 * config.layers * config.kv_dim() * static_cast<int64_t>(element_size);
  if (config.cache == CacheKind::kPaged) growth["page"] = config.page_size;
  if (config.cache == CacheKind::kRing) growth["slots"] = config.window;
}

std::string ContractOf(const Config& config, size_t element_size) {
  nlohmann::json contract = {{"contract", "attest-model-1"},
                             {"kind", KindWord(config.kind)},
                             {"vocab", config.vocab},
                             {"max_len", config.max_len},
                             {"dtype", element_size == sizeof(double) ? "f64" : "f32"},
                             {"padding", {"left", "right"}},
                             {"first_position", true}};
  std::vector<std::string_view> bits = {"future", "padding_content", "batch", "rerun"};
  // Beyond a tile of keys padding and rings move keys to other tiles, and sums come in another order.
  if (config.max_len <= kTile) bits.insert(bits.end(), {"padding", "chunks"});
  contract["bits_invariant"] = bits;
  if (!PositionsWord(config).empty()) contract["positions"] = PositionsWord(config);
  if (config.window > 0) contract["reach"] = config.layers * (config.window - 1) + 1;
  if (config.kind != Kind::kEncoder) AddCache(config, element_size, contract);
  if (config.kind == Kind::kDecoder) contract["batcher"] = {{"pad", kPadding}, {"packs", true}};
  if (config.rows == Rows::kStream) {
    contract["batcher"] = {{"eos", kEndOfDocument}, {"joins", true}, {"drops_last", true}};
  }
  if (config.rows == Rows::kChunks) {
    contract["batcher"] = {
        {"eos", kEndOfDocument}, {"packs", true}, {"drops_last", true}, {"loses_edges", true}};
  }
  return contract.dump();
}

template <typename T>
tl::expected<void, CallError> WriteLogits(const tl::expected<Matrix<T>, std::string>& logits,
                                          void* to) {
  if (!logits) return tl::unexpected(Invalid(logits.error()));
  std::copy_n(logits->data(), logits->size(), static_cast<T*>(to));
  return {};
}

template <typename T>
class ModelCache : public AnyCache {
 public:
  explicit ModelCache(Session<T> session, bool fresh = true)
      : session_(std::move(session)), fresh_(fresh) {}

  tl::expected<void, CallError> Step(const attest_logits_call& call) override {
    const auto tokens = ReadTokens(call.tokens, "tokens");
    if (!tokens) return tl::unexpected(tokens.error());
    if (tokens->batch != session_.batch())
      return tl::unexpected(Invalid("tokens: another batch than the cache"));
    return WriteLogits(session_.Append(*tokens), call.logits);
  }
  void Reorder(const int64_t* parents) override {
    session_.Reorder({parents, static_cast<size_t>(session_.batch())});
  }
  int64_t Bytes() const override { return session_.cache_bytes(); }

  const Session<T>& session() const { return session_; }
  bool is_fresh() const { return fresh_; }

 private:
  Session<T> session_;
  bool fresh_;  // it began empty
};

template <typename T>
class ModelOf : public AnyModel {
 public:
  ModelOf(const Config& config, std::optional<KernelAttention> kernel)
      : model_(MakeModel<T>(config)),
        kernel_(std::move(kernel)),
        attend_(PlainAttend<T>()),
        contract_(ContractOf(config, sizeof(T))) {
    if (!kernel_) return;
    attend_ = [this](const AttentionTask<T>& task, Matrix<T>& out) {
      return kernel_->Run(task, out);
    };
  }

  const std::string& Contract() const override { return contract_; }

  tl::expected<void, CallError> Logits(const attest_logits_call& call) override {
    auto tokens = ReadTokens(call.tokens, "tokens");
    if (!tokens) return tl::unexpected(tokens.error());
    if (call.first_position != nullptr) {
      tokens->first_position.assign(call.first_position, call.first_position + tokens->batch);
    }
    const auto memory = ReadSource(call.source, tokens->batch);
    if (!memory) return tl::unexpected(memory.error());
    return WriteLogits(
        transformer::Logits<T>(model_, *tokens, *memory ? &**memory : nullptr, attend_),
        call.logits);
  }

  tl::expected<std::unique_ptr<AnyCache>, CallError> Open(const attest_cache_info& info) override {
    const Config& config = model_.config;
    if (info.kind == nullptr || info.kind != CacheWord(config.cache)) {
      return tl::unexpected(
          CallError{ATTEST_UNSUPPORTED, fmt::format("the cache is {}", CacheWord(config.cache))});
    }
    auto memory = ReadSource(info.source, info.batch);
    if (!memory) return tl::unexpected(memory.error());
    if (config.fault == Fault::kMemoryOfLastRequest) {
      const bool fits = last_memory_ && *memory && last_memory_->places.batch == info.batch;
      std::optional<Memory<T>> stale = fits ? last_memory_ : *memory;
      last_memory_ = std::exchange(*memory, std::move(stale));
    }
    if (last_session_ && last_session_->batch() == info.batch && HasRoom(info.capacity)) {
      return std::make_unique<ModelCache<T>>(*last_session_, /*fresh=*/false);
    }
    return std::make_unique<ModelCache<T>>(
        Session<T>(model_, info.batch, std::move(*memory), attend_));
  }

  void Close(std::unique_ptr<AnyCache> cache) override {
    const auto& closed = static_cast<const ModelCache<T>&>(*cache);
    if (model_.config.fault == Fault::kCacheNotCleared && closed.is_fresh()) {
      last_session_ = closed.session();
    }
  }

  tl::expected<void, CallError> Batch(const attest_batch_call& call) override;

 private:
  // The encoded source of an encoder-decoder; no memory of other models.
  tl::expected<std::optional<Memory<T>>, CallError> ReadSource(const attest_tokens& from,
                                                               int64_t batch) const {
    if (model_.config.kind != Kind::kEncoderDecoder) return std::nullopt;
    const auto source = ReadTokens(from, "source");
    if (!source) return tl::unexpected(source.error());
    if (source->batch != batch)
      return tl::unexpected(Invalid("source: another batch than the tokens"));
    auto memory = Encode(model_, *source, attend_);
    if (!memory) return tl::unexpected(Invalid(memory.error()));
    return std::optional(std::move(*memory));
  }
  bool HasRoom(int64_t capacity) const {
    const auto& count = last_session_->count();
    return capacity + *std::max_element(count.begin(), count.end()) <= model_.config.max_len;
  }

  Model<T> model_;
  std::optional<KernelAttention> kernel_;
  Attend<T> attend_;
  std::string contract_;
  // What faults keep from request to request.
  std::optional<Session<T>> last_session_;
  std::optional<Memory<T>> last_memory_;
};

Lesson LessonOf(const Config& config, const std::vector<Document>& documents, int64_t len) {
  switch (config.rows) {
    case Rows::kPadded:
      return MakeLesson(documents, len, /*pack=*/true, config.fault);
    case Rows::kStream:
      return MakeStreamLesson(documents, len, kEndOfDocument, config.fault);
    case Rows::kChunks:
      return MakeChunkLesson(documents, len, kEndOfDocument, config.fault);
  }
  return {};
}

template <typename T>
tl::expected<void, CallError> ModelOf<T>::Batch(const attest_batch_call& call) {
  std::vector<Document> documents;
  const int64_t* next = call.documents;
  for (int64_t d = 0; d < call.num_documents; ++d) {
    documents.emplace_back(next, next + call.document_lengths[d]);
    next += call.document_lengths[d];
  }
  const Config& config = model_.config;
  const Lesson lesson = LessonOf(config, documents, call.len);
  if (lesson.inputs.batch > call.rows) return tl::unexpected(Invalid("rows: there are too few"));
  std::copy(lesson.inputs.ids.begin(), lesson.inputs.ids.end(), call.inputs);
  std::copy(lesson.targets.begin(), lesson.targets.end(), call.targets);
  std::transform(lesson.weights.begin(), lesson.weights.end(), call.weights,
                 [](double weight) { return static_cast<float>(weight); });
  *call.rows_used = lesson.inputs.batch;
  return {};
}

}  // namespace

tl::expected<std::unique_ptr<AnyModel>, std::string> MakeAnyModel(const Config& config,
                                                                  bool in_double, bool by_kernel) {
  std::optional<KernelAttention> kernel;
  if (by_kernel) {
    auto made = KernelAttention::Create(TiledKernelTable());
    if (!made) return tl::unexpected(made.error());
    kernel = std::move(*made);
  }
  if (in_double) return std::make_unique<ModelOf<double>>(config, std::move(kernel));
  return std::make_unique<ModelOf<float>>(config, std::move(kernel));
}

}  // namespace attest::transformer
