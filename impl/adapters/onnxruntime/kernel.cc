#include "impl/adapters/onnxruntime/kernel.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "impl/adapters/onnxruntime/attention.h"
#include "impl/adapters/onnxruntime/group_query.h"
#include "impl/adapters/onnxruntime/model.h"
#include "impl/adapters/onnxruntime/multi_head.h"

namespace attest::ort {
namespace {

// The runtime that is looked for unless ?version= says otherwise: the one that ci/setup installs.
constexpr char kDefaultVersion[] = "1.28.2";

// A session holds some 100 KiB; a run of `attest check` meets a few dozen models, mostly for their
// scales.
constexpr size_t kMaxSessions = 256;
// Each session has threads of its own, and each thread reserves megabytes for its stack: more would pass
// the address space that attest gives a worker.
constexpr int kMaxThreads = 128;

// Of sessions of `threads` threads, the calling one among them; 0 = as many as there are cores.
size_t SessionsToKeep(int threads) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int others = std::max(threads == 0 ? cores : threads, 1) - 1;
  if (others == 0) return kMaxSessions;
  return std::min(kMaxSessions, static_cast<size_t>(std::max(kMaxThreads / others, 1)));
}

struct Variant {
  std::string_view name;
  std::string (*contract)(const Settings&);
  OnnxCalls (*read)(const attest_call&, const Settings&);
  std::string_view options;
};
constexpr Variant kVariants[] = {
    {"attention", AttentionContract, ReadAttention, "opset=23|24, past=on|off, version=X.Y.Z"},
    {"mha", MultiHeadContract, ReadMultiHead, "past=on|off, version=X.Y.Z"},
    {"gqa", GroupQueryContract, ReadGroupQuery,
     "step=token|ragged|chunk, sinks=on|off, version=X.Y.Z"}};

const Variant* FindVariant(std::string_view name) {
  const auto* found = std::find_if(std::begin(kVariants), std::end(kVariants),
                                   [&](const Variant& variant) { return variant.name == name; });
  return found == std::end(kVariants) ? nullptr : found;
}

bool IsVersion(std::string_view text) {
  const auto is_part = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_part);
}

bool IsSwitch(std::string_view text) {
  return text == "on" || text == "off";
}

bool IsStep(std::string_view text) {
  return text == "token" || text == "ragged" || text == "chunk";
}

// Takes one create option; false where the variant does not have it.
bool TakeOption(const std::string& key, const std::string& value, Settings* settings) {
  const bool is_attention = settings->variant == "attention";
  const bool is_gqa = settings->variant == "gqa";
  if (key == "version" && IsVersion(value)) {
    settings->version = value;
  } else if (key == "past" && !is_gqa && IsSwitch(value)) {
    settings->past = value == "on";
  } else if (key == "opset" && is_attention && (value == "23" || value == "24")) {
    settings->opset = value == "23" ? 23 : 24;
  } else if (key == "sinks" && is_gqa && IsSwitch(value)) {
    settings->sinks = value == "on";
  } else if (key == "step" && is_gqa && IsStep(value)) {
    settings->step = value;
  } else {
    return false;
  }
  return true;
}

std::string MissingLibrary(const std::string& path, const std::string& version) {
  const std::string which =
      version == kDefaultVersion ? "" : "ATTEST_ONNXRUNTIME_VERSIONS=" + version + " ";
  return "ONNX Runtime " + version + " is not installed (no " + path + "): run " + which +
         "ci/setup --with onnxruntime, or set ATTEST_ONNXRUNTIME to a libonnxruntime.so";
}

}  // namespace

tl::expected<Settings, std::string> ReadSettings(const CreateOptions& options) {
  Settings settings{.version = kDefaultVersion};
  if (const auto found = options.values.find("variant"); found != options.values.end()) {
    settings.variant = found->second;
  }
  const Variant* variant = FindVariant(settings.variant);
  if (variant == nullptr) {
    return tl::unexpected("unknown variant \"" + settings.variant +
                          "\": there are attention, mha and gqa");
  }
  for (const auto& [key, value] : options.values) {
    if (key == "variant" || TakeOption(key, value, &settings)) continue;
    return tl::unexpected("cannot take " + key + "=" + value + ": options are " +
                          std::string(variant->options));
  }
  return settings;
}

std::string LibraryPath(const std::string& version) {
  // The worker that loads plug-ins has one thread, and nobody changes the environment there.
  if (const char* path = std::getenv("ATTEST_ONNXRUNTIME"); path != nullptr && *path != '\0') {
    return path;
  }
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&LibraryPath), &info) == 0) return "";
  std::error_code error;
  const auto plugin = std::filesystem::absolute(info.dli_fname, error).lexically_normal();
  const auto build = plugin.parent_path().parent_path().parent_path();
  return build / "third_party" / ("onnxruntime-" + version) / "libonnxruntime.so";
}

Kernel::Kernel(Settings settings, std::unique_ptr<Runtime> runtime, int threads)
    : settings_(std::move(settings)),
      contract_json_(FindVariant(settings_.variant)->contract(settings_)),
      runtime_(std::move(runtime)),
      sessions_(*runtime_, threads, SessionsToKeep(threads)) {}

tl::expected<std::unique_ptr<Kernel>, std::string> Kernel::Create(Settings settings, int threads) {
  const std::string path = LibraryPath(settings.version);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return tl::unexpected(MissingLibrary(path, settings.version));
  }
  auto runtime = Runtime::Open(path);
  if (!runtime) return tl::unexpected(std::move(runtime).error());
  settings.version = (*runtime)->version();  // $ATTEST_ONNXRUNTIME may be any
  return std::unique_ptr<Kernel>(new Kernel(std::move(settings), std::move(*runtime), threads));
}

tl::expected<void, CallError> Kernel::Run(const OnnxCall& call) {
  const auto refusal = [](const Error& error) {
    return tl::unexpected(
        CallError{error.not_implemented ? ATTEST_UNSUPPORTED : ATTEST_FAILED, error.message});
  };
  const auto session = sessions_.Get(BuildModel(call));
  if (!session) return refusal(session.error());
  const auto done = (*session)->Run(call.inputs, call.outputs);
  if (!done) return refusal(done.error());
  return {};
}

tl::expected<void, CallError> Kernel::Forward(const attest_call& call) {
  const auto calls = FindVariant(settings_.variant)->read(call, settings_);
  if (!calls) return tl::unexpected(calls.error());
  for (const OnnxCall& onnx_call : *calls) {
    if (auto done = Run(onnx_call); !done) return done;
  }
  return {};
}

}  // namespace attest::ort
