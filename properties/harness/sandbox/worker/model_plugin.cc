#include "properties/harness/sandbox/worker/model_plugin.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/sandbox/model_roles.h"

namespace attest {
namespace {

// A model's instance, as the "kernel" of the table below.
struct Instance {
  const attest_model_table* table;
  void* model;
};

const Instance& InstanceOf(void* kernel) {
  return *static_cast<const Instance*>(kernel);
}

// The tensors and options of a call by number.
class ModelCall {
 public:
  explicit ModelCall(const attest_call& call) : call_(call) {}

  const DLTensor* Find(int32_t role) const {
    for (uint32_t i = 0; i < call_.num_arguments; ++i)
      if (call_.arguments[i].role == role) return call_.arguments[i].tensor;
    return nullptr;
  }
  template <typename T>
  T* Data(int32_t role) const {
    const DLTensor* tensor = Find(role);
    return tensor == nullptr ? nullptr : static_cast<T*>(tensor->data);
  }
  int64_t Extent(int32_t role, int axis) const {
    const DLTensor* tensor = Find(role);
    return tensor == nullptr ? 0 : tensor->shape[axis];
  }
  int64_t Option(int32_t id) const {
    for (uint32_t i = 0; i < call_.num_options; ++i)
      if (call_.options[i].id == id) return call_.options[i].value.i;
    return 0;
  }
  attest_tokens Tokens(int32_t role, int32_t lengths) const {
    if (Find(role) == nullptr) return {};
    return {Extent(role, 0), Extent(role, 1), Data<const int64_t>(role),
            Data<const int64_t>(lengths), static_cast<int32_t>(Option(kModelPadding))};
  }
  attest_tokens Source() const { return Tokens(kModelSource, kModelSourceLengths); }
  char* message() const { return call_.message; }
  size_t message_size() const { return call_.message_size; }

 private:
  const attest_call& call_;
};

attest_status Logits(const Instance& instance, const ModelCall& call) {
  attest_logits_call own{};
  own.struct_size = sizeof own;
  own.tokens = call.Tokens(kModelTokens, kModelLengths);
  own.source = call.Source();
  own.first_position = call.Data<const int64_t>(kModelFirstPosition);
  own.logits = call.Data<void>(kModelLogits);
  own.message = call.message();
  own.message_size = call.message_size();
  return instance.table->logits(instance.model, &own);
}

// An open cache, closed on every path.
class Cache {
 public:
  Cache(const Instance& instance, const ModelCall& call) : instance_(instance), call_(call) {}
  ~Cache() {
    if (is_open_) instance_.table->cache_close(instance_.model, cache_);
  }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  attest_status Open() {
    attest_cache_info info{};
    info.struct_size = sizeof info;
    info.batch = call_.Extent(kModelTokens, 0);
    info.capacity = call_.Extent(kModelTokens, 1);
    info.kind = kCacheKinds[call_.Option(kModelCacheKind)];
    info.source = call_.Source();
    info.message = call_.message();
    info.message_size = call_.message_size();
    const attest_status status = instance_.table->cache_open(instance_.model, &info, &cache_);
    is_open_ = NumberOf(status) == ATTEST_OK;
    return status;
  }

  // The logits of tokens[:, begin:end], [batch, end - begin, vocab], go to `logits`.
  attest_status Step(const int64_t* tokens, int64_t begin, int64_t end, void* logits) {
    const int64_t batch = call_.Extent(kModelTokens, 0), len = call_.Extent(kModelTokens, 1);
    std::vector<int64_t> chunk, lengths(static_cast<size_t>(batch), end - begin);
    for (int64_t b = 0; b < batch; ++b)
      chunk.insert(chunk.end(), tokens + b * len + begin, tokens + b * len + end);
    // All padding lies in the first chunk: what a length lacks, this lacks.
    if (begin == 0)
      for (int64_t b = 0; b < batch; ++b)
        lengths[static_cast<size_t>(b)] -= len - call_.Data<const int64_t>(kModelLengths)[b];
    attest_logits_call own{};
    own.struct_size = sizeof own;
    own.tokens = {
        batch, end - begin, chunk.data(), lengths.data(),
        begin == 0 ? static_cast<int32_t>(call_.Option(kModelPadding)) : ATTEST_PADDING_NONE};
    own.logits = logits;
    own.message = call_.message();
    own.message_size = call_.message_size();
    return instance_.table->cache_step(instance_.model, cache_, &own);
  }

  attest_status Reorder(const int64_t* parents) {
    return instance_.table->cache_reorder(instance_.model, cache_, parents);
  }
  int64_t Bytes() { return instance_.table->cache_bytes(instance_.model, cache_); }

 private:
  const Instance& instance_;
  const ModelCall& call_;
  void* cache_ = nullptr;
  bool is_open_ = false;
};

bool IsOk(const attest_status& status) {
  return NumberOf(status) == ATTEST_OK;
}

// One generation, chunk by chunk, with a decoy beside it where the call has one.
class Generation {
 public:
  Generation(const Instance& instance, const ModelCall& call)
      : call_(call), own_(instance, call), decoy_(instance, call) {
    const DLTensor* logits = call.Find(kModelLogits);
    row_bytes_ = static_cast<size_t>(logits->shape[2]) * logits->dtype.bits / 8;
  }

  attest_status Run() {
    const auto* decoy = call_.Data<const int64_t>(kModelDecoy);
    if (decoy != nullptr)
      if (const attest_status status = decoy_.Open(); !IsOk(status)) return status;
    if (const attest_status status = own_.Open(); !IsOk(status)) return status;
    int64_t begin = 0;
    for (int64_t step = 0; step < call_.Extent(kModelChunks, 0); ++step) {
      const int64_t end = begin + call_.Data<const int64_t>(kModelChunks)[step];
      if (decoy != nullptr) {
        std::vector<std::byte> unused(Bytes(end - begin));
        const attest_status status = decoy_.Step(decoy, begin, end, unused.data());
        if (!IsOk(status)) return status;
      }
      if (const attest_status status = Step(step, begin, end); !IsOk(status)) return status;
      begin = end;
    }
    return ATTEST_OK;
  }

 private:
  size_t Bytes(int64_t len) const {
    return static_cast<size_t>(call_.Extent(kModelTokens, 0) * len) * row_bytes_;
  }

  attest_status Step(int64_t step, int64_t begin, int64_t end) {
    if (const auto* parents = call_.Data<const int64_t>(kModelParents)) {
      const int64_t batch = call_.Extent(kModelTokens, 0);
      const attest_status status = own_.Reorder(parents + step * batch);
      if (!IsOk(status)) return status;
    }
    std::vector<std::byte> logits(Bytes(end - begin));
    // What the model leaves unwritten shows in the output, whose fill this is.
    Copy(begin, end, logits.data(), /*to_output=*/false);
    const attest_status status =
        own_.Step(call_.Data<const int64_t>(kModelTokens), begin, end, logits.data());
    if (!IsOk(status)) return status;
    Copy(begin, end, logits.data(), /*to_output=*/true);
    if (auto* bytes = call_.Data<int64_t>(kModelCacheBytes)) bytes[step] = own_.Bytes();
    return status;
  }

  // Between a chunk's dense logits and their places in the output.
  void Copy(int64_t begin, int64_t end, std::byte* chunk, bool to_output) {
    const int64_t batch = call_.Extent(kModelTokens, 0), len = call_.Extent(kModelTokens, 1);
    const size_t bytes = static_cast<size_t>(end - begin) * row_bytes_;
    for (int64_t b = 0; b < batch; ++b) {
      std::byte* output =
          call_.Data<std::byte>(kModelLogits) + static_cast<size_t>(b * len + begin) * row_bytes_;
      std::byte* dense = chunk + static_cast<size_t>(b) * bytes;
      std::memcpy(to_output ? output : dense, to_output ? dense : output, bytes);
    }
  }

  const ModelCall& call_;
  Cache own_, decoy_;
  size_t row_bytes_ = 0;
};

attest_status Batch(const Instance& instance, const ModelCall& call) {
  attest_batch_call own{};
  own.struct_size = sizeof own;
  own.num_documents = call.Extent(kModelDocumentLengths, 0);
  own.document_lengths = call.Data<const int64_t>(kModelDocumentLengths);
  own.documents = call.Data<const int64_t>(kModelDocuments);
  own.rows = call.Extent(kModelInputs, 0);
  own.len = call.Extent(kModelInputs, 1);
  own.inputs = call.Data<int64_t>(kModelInputs);
  own.targets = call.Data<int64_t>(kModelTargets);
  own.weights = call.Data<float>(kModelWeights);
  own.rows_used = call.Data<int64_t>(kModelRows);
  own.message = call.message();
  own.message_size = call.message_size();
  const int64_t elements = own.rows * own.len;
  std::fill_n(own.inputs, elements, 0);
  std::fill_n(own.targets, elements, 0);
  std::fill_n(own.weights, elements, 0.0F);
  return instance.table->batch(instance.model, &own);
}

// Why the model cannot do what the call asks; nullptr = it can.
const char* WhyNotOffered(const attest_model_table& table, const ModelCall& call) {
  switch (static_cast<ModelOperation>(call.Option(kModelOperation))) {
    case ModelOperation::kLogits:
      return nullptr;
    case ModelOperation::kGenerate:
      if (table.cache_open == nullptr) return "the model has no cache";
      if (call.Find(kModelParents) != nullptr && table.cache_reorder == nullptr)
        return "the model has no cache_reorder";
      if (call.Find(kModelCacheBytes) != nullptr && table.cache_bytes == nullptr)
        return "the model has no cache_bytes";
      return nullptr;
    case ModelOperation::kBatch:
      return table.batch == nullptr ? "the model has no batcher" : nullptr;
  }
  return "an unknown operation";
}

attest_status Forward(void* kernel, attest_call* raw) {
  const Instance& instance = InstanceOf(kernel);
  const ModelCall call(*raw);
  if (const char* why = WhyNotOffered(*instance.table, call)) {
    fmt::format_to_n(raw->message, raw->message_size - 1, "{}", why).out[0] = '\0';
    return ATTEST_UNSUPPORTED;
  }
  switch (static_cast<ModelOperation>(call.Option(kModelOperation))) {
    case ModelOperation::kGenerate:
      return Generation(instance, call).Run();
    case ModelOperation::kBatch:
      return Batch(instance, call);
    default:
      return Logits(instance, call);
  }
}

void Destroy(void* kernel) {
  const std::unique_ptr<Instance> instance(static_cast<Instance*>(kernel));
  instance->table->destroy(instance->model);
}

attest_kernel_table MakeTable(const attest_model_table& model) {
  attest_kernel_table table{};
  table.abi_version = ATTEST_ABI_VERSION;
  table.struct_size = sizeof table;
  table.name = model.name;
  table.version = model.version;
  table.forward = Forward;
  table.destroy = Destroy;
  return table;
}

// Why a table cannot be used. The version is looked at first: the rest means nothing without it.
std::optional<std::string> WhyUnusable(const attest_model_table* table) {
  if (table == nullptr) return "attest_model() returned NULL";
  if (table->abi_version != ATTEST_MODEL_ABI_VERSION)
    return fmt::format("it speaks model ABI version {}, this attest speaks version {}; rebuild it",
                       table->abi_version, ATTEST_MODEL_ABI_VERSION);
  if (table->struct_size < sizeof(attest_model_table))
    return fmt::format(
        "its table has struct_size {}, but version {} has {} bytes; "
        "set it to sizeof(attest_model_table)",
        table->struct_size, ATTEST_MODEL_ABI_VERSION, sizeof(attest_model_table));
  const bool has_cache = table->cache_open != nullptr;
  const std::array<std::pair<const char*, bool>, 8> required = {
      {{"name", table->name != nullptr},
       {"version", table->version != nullptr},
       {"create", table->create != nullptr},
       {"contract", table->contract != nullptr},
       {"logits", table->logits != nullptr},
       {"destroy", table->destroy != nullptr},
       {"cache_step", !has_cache || table->cache_step != nullptr},
       {"cache_close", !has_cache || table->cache_close != nullptr}}};
  for (const auto& [name, present] : required)
    if (!present) return fmt::format("its table lacks {}", name);
  return std::nullopt;
}

}  // namespace

tl::expected<Plugin, std::string> MakeModelPlugin(const attest_model_table* table,
                                                  const StringPairs& options, int threads) {
  if (const auto why = WhyUnusable(table)) return tl::unexpected(*why);
  const auto model = CreateInstance(table->create, options, threads);
  if (!model) return tl::unexpected(model.error());
  const char* contract = table->contract(*model);
  if (contract == nullptr) return tl::unexpected<std::string>("contract() returned NULL");
  static const attest_kernel_table as_kernel = MakeTable(*table);  // a worker loads one plug-in
  return Plugin{&as_kernel, new Instance{table, *model}, contract};
}

}  // namespace attest
