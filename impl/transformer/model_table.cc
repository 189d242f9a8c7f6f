#include "impl/transformer/model_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "impl/abi/kernel_table.h"
#include "impl/transformer/any_model.h"
#include "impl/transformer/config.h"

namespace attest::transformer {
namespace {

using kernel_table_internal::Guarded;

AnyModel& ModelAt(void* model) {
  return *static_cast<AnyModel*>(model);
}

AnyCache& CacheAt(void* cache) {
  return *static_cast<AnyCache*>(cache);
}

// Takes a key out of the options.
std::string Take(std::map<std::string, std::string>& options, const std::string& key,
                 std::string fallback) {
  const auto found = options.find(key);
  if (found == options.end()) return fallback;
  std::string value = std::move(found->second);
  options.erase(found);
  return value;
}

tl::expected<Config, std::string> ConfigOfModel(const std::string& variant) {
  std::vector<std::string_view> known;
  for (const Variant& one : Variants()) {
    if (one.id == variant) return BaseConfig(one.base);
    known.push_back(one.id);
  }
  return tl::unexpected(
      fmt::format("there is no model \"{}\"; there are {}", variant, fmt::join(known, ", ")));
}

tl::expected<Config, std::string> ConfigOfMutant(const std::string& variant) {
  const Mutant* mutant = FindMutant(variant);
  if (mutant == nullptr) {
    return tl::unexpected(
        fmt::format("there is no mutant \"{}\"; attest list names them all", variant));
  }
  Config config = BaseConfig(mutant->base);
  config.fault = mutant->fault;
  return config;
}

tl::expected<std::unique_ptr<AnyModel>, std::string> Make(const attest_create_info& info,
                                                          bool mutant) {
  auto create = ParseCreateInfo(&info);
  if (!create) return tl::unexpected(create.error());
  auto& options = create->values;
  const std::string variant = Take(options, "variant", mutant ? "" : "decoder");
  const std::string dtype = Take(options, "dtype", "f32");
  const std::string attention = Take(options, "attention", "tiled");
  if (dtype != "f32" && dtype != "f64") {
    return tl::unexpected(fmt::format("option dtype: \"{}\" is neither f32 nor f64", dtype));
  }
  if (attention != "tiled" && attention != "plain") {
    return tl::unexpected(
        fmt::format("option attention: \"{}\" is neither tiled nor plain", attention));
  }
  const auto base = mutant ? ConfigOfMutant(variant) : ConfigOfModel(variant);
  if (!base) return tl::unexpected(base.error());
  const auto config = WithOptions(*base, options);
  if (!config) return tl::unexpected(config.error());
  return MakeAnyModel(*config, dtype == "f64", attention == "tiled");
}

template <bool kMutant>
attest_status Create(const attest_create_info* info, void** model) {
  if (info == nullptr || model == nullptr) return ATTEST_INVALID_ARGUMENT;
  if (info->struct_size < sizeof(attest_create_info)) return ATTEST_INVALID_ARGUMENT;
  return Guarded(info->message, info->message_size, [&] {
    auto made = Make(*info, kMutant);
    if (made) {
      *model = made->release();
      return ATTEST_OK;
    }
    WriteMessage(made.error(), info->message, info->message_size);
    return ATTEST_INVALID_ARGUMENT;
  });
}

const char* Contract(void* model) {
  return ModelAt(model).Contract().c_str();
}

void Destroy(void* model) {
  delete &ModelAt(model);
}

// Runs body(), whose error goes into the call's message.
template <typename Call, typename Body>
attest_status Answer(const Call* call, Body&& body) {
  if (call == nullptr || call->struct_size < sizeof(Call)) return ATTEST_INVALID_ARGUMENT;
  return Guarded(call->message, call->message_size, [&] {
    const auto done = body();
    if (done) return ATTEST_OK;
    WriteMessage(done.error().message, call->message, call->message_size);
    return done.error().status;
  });
}

attest_status Logits(void* model, const attest_logits_call* call) {
  return Answer(call, [&] { return ModelAt(model).Logits(*call); });
}

attest_status Open(void* model, const attest_cache_info* info, void** cache) {
  return Answer(info, [&]() -> tl::expected<void, CallError> {
    auto opened = ModelAt(model).Open(*info);
    if (!opened) return tl::unexpected(opened.error());
    *cache = opened->release();
    return {};
  });
}

attest_status Step(void*, void* cache, const attest_logits_call* call) {
  return Answer(call, [&] { return CacheAt(cache).Step(*call); });
}

attest_status Reorder(void*, void* cache, const int64_t* parents) {
  return Guarded(nullptr, 0, [&] {
    CacheAt(cache).Reorder(parents);
    return ATTEST_OK;
  });
}

int64_t Bytes(void*, void* cache) {
  return CacheAt(cache).Bytes();
}

void Close(void* model, void* cache) {
  ModelAt(model).Close(std::unique_ptr<AnyCache>(&CacheAt(cache)));
}

attest_status Batch(void* model, const attest_batch_call* call) {
  return Answer(call, [&] { return ModelAt(model).Batch(*call); });
}

template <bool kMutant>
const attest_model_table* Table() {
  static constexpr attest_model_table kTable = {
      ATTEST_MODEL_ABI_VERSION,
      sizeof(attest_model_table),
      kMutant ? "model-mutant" : "model",
      "1",
      Create<kMutant>,
      Contract,
      Logits,
      Destroy,
      Open,
      Step,
      Reorder,
      Bytes,
      Close,
      Batch,
  };
  return &kTable;
}

}  // namespace

const attest_model_table* ModelTable() {
  return Table<false>();
}

const attest_model_table* MutantTable() {
  return Table<true>();
}

}  // namespace attest::transformer
