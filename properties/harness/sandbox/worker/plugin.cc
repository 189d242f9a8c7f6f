#include "properties/harness/sandbox/worker/plugin.h"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "impl/attention/one_line.h"
#include "properties/harness/sandbox/worker/model_plugin.h"

namespace attest {
namespace {

constexpr size_t kMessageBytes = 1024;

std::string DynamicLinkerError() {
  const char* error = ::dlerror();
  return error == nullptr ? "no reason given" : OneLine(error);
}

// Why a table cannot be used. The version is looked at first: the rest means nothing without it.
std::optional<std::string> WhyUnusable(const attest_kernel_table* table) {
  if (table == nullptr) return "attest_kernel() returned NULL";
  if (table->abi_version != ATTEST_ABI_VERSION)
    return fmt::format("it speaks ABI version {}, this attest speaks version {}; rebuild it",
                       table->abi_version, ATTEST_ABI_VERSION);
  if (table->struct_size < sizeof(attest_kernel_table))
    return fmt::format(
        "its table has struct_size {}, but version {} has {} bytes; "
        "set it to sizeof(attest_kernel_table)",
        table->struct_size, ATTEST_ABI_VERSION, sizeof(attest_kernel_table));
  const std::array<std::pair<const char*, bool>, 6> required = {
      {{"name", table->name != nullptr},
       {"version", table->version != nullptr},
       {"create", table->create != nullptr},
       {"contract", table->contract != nullptr},
       {"forward", table->forward != nullptr},
       {"destroy", table->destroy != nullptr}}};
  for (const auto& [name, present] : required)
    if (!present) return fmt::format("its table lacks {}", name);
  return std::nullopt;
}

std::string StatusName(int status) {
  switch (status) {
    case ATTEST_OK:
      return "OK";
    case ATTEST_UNSUPPORTED:
      return "UNSUPPORTED";
    case ATTEST_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case ATTEST_FAILED:
      return "FAILED";
  }
  return fmt::format("the unknown status {}", status);
}

}  // namespace

tl::expected<void*, std::string> CreateInstance(attest_status (*create)(const attest_create_info*,
                                                                        void**),
                                                const StringPairs& options, int threads) {
  std::vector<attest_string_pair> pairs;
  for (const auto& [key, value] : options) pairs.push_back({key.c_str(), value.c_str()});
  std::array<char, kMessageBytes> message{};
  attest_create_info info{};
  info.struct_size = sizeof info;
  info.threads = threads;
  info.num_options = static_cast<uint32_t>(pairs.size());
  info.options = pairs.data();
  info.message = message.data();
  info.message_size = message.size();
  void* kernel = nullptr;
  const attest_status returned = create(&info, &kernel);
  const int status = NumberOf(returned);
  if (status == ATTEST_OK) return kernel;
  message.back() = '\0';
  const std::string reason = message[0] == '\0' ? "no reason given" : OneLine(message.data());
  return tl::unexpected(fmt::format("create answered {}: {}", StatusName(status), reason));
}

tl::expected<Plugin, std::string> LoadPlugin(const std::string& path, const StringPairs& options,
                                             int threads) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return tl::unexpected(fmt::format("{}: cannot be loaded: {}", path, DynamicLinkerError()));
  using Entry = const attest_kernel_table* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(library, "attest_kernel"));
  using ModelEntry = const attest_model_table* (*)();
  const auto model_entry = reinterpret_cast<ModelEntry>(::dlsym(library, "attest_model"));
  if (entry == nullptr && model_entry == nullptr)
    return tl::unexpected(
        fmt::format("{}: does not export attest_kernel(); see attest/kernel.h", path));
  auto plugin = entry == nullptr ? MakeModelPlugin(model_entry(), options, threads)
                                 : MakePlugin(entry(), options, threads);
  if (!plugin) return tl::unexpected(fmt::format("{}: {}", path, plugin.error()));
  return plugin;
}

tl::expected<Plugin, std::string> MakePlugin(const attest_kernel_table* table,
                                             const StringPairs& options, int threads) {
  if (const auto why = WhyUnusable(table)) return tl::unexpected(*why);
  const auto kernel = CreateInstance(table->create, options, threads);
  if (!kernel) return tl::unexpected(kernel.error());
  const char* contract = table->contract(*kernel);
  if (contract == nullptr) return tl::unexpected<std::string>("contract() returned NULL");
  return Plugin{table, *kernel, contract};
}

int NumberOf(const attest_status& status) {
  static_assert(sizeof(attest_status) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &status, sizeof number);
  return number;
}

}  // namespace attest
