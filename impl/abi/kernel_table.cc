#include "impl/abi/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace attest {

tl::expected<CreateOptions, std::string> ParseCreateInfo(const attest_create_info* info) {
  CreateOptions options;
  options.threads = info->threads;
  if (info->num_options != 0 && info->options == nullptr) {
    return tl::unexpected<std::string>("num_options is not 0 but options is null");
  }
  for (uint32_t n = 0; n < info->num_options; ++n) {
    const attest_string_pair& pair = info->options[n];
    if (pair.key == nullptr || pair.value == nullptr) {
      return tl::unexpected(fmt::format("create option {} has a null key or value", n));
    }
    if (!options.values.emplace(pair.key, pair.value).second) {
      return tl::unexpected(fmt::format("create option {} is given twice", pair.key));
    }
  }
  return options;
}

tl::expected<int64_t, std::string> PositiveOption(const CreateOptions& options,
                                                  const std::string& key, int64_t fallback) {
  const auto found = options.values.find(key);
  if (found == options.values.end()) return fallback;
  const std::string& text = found->second;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) {
    return tl::unexpected(fmt::format("{}={} is not an integer of at least 1", key, text));
  }
  return value;
}

tl::expected<void, std::string> RefuseOthers(const CreateOptions& options,
                                             std::initializer_list<std::string_view> known) {
  for (const auto& [key, value] : options.values) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return tl::unexpected(
        known.size() == 0
            ? fmt::format("option {} is unknown; this kernel takes none", key)
            : fmt::format("option {} is unknown; known are {}", key, fmt::join(known, ", ")));
  }
  return {};
}

tl::expected<void, CallError> RefuseOtherParts(const attest_call& call,
                                               std::span<const CallPart> known) {
  const auto refuse = [](const char* what, int32_t number) {
    return tl::unexpected(
        CallError{ATTEST_UNSUPPORTED, fmt::format("{} {} is not offered", what, number)});
  };
  for (uint32_t n = 0; n < call.num_arguments; ++n) {
    const int32_t role = call.arguments[n].role;
    const auto is_it = [&](const CallPart& part) { return part.role == role; };
    if (role >= ATTEST_ROLE_DOUT) continue;  // ParseCall takes them of backward calls alone
    if (std::none_of(known.begin(), known.end(), is_it)) return refuse("tensor role", role);
  }
  for (uint32_t n = 0; n < call.num_options; ++n) {
    const int32_t id = call.options[n].id;
    const auto is_it = [&](const CallPart& part) { return part.option == id; };
    if (std::none_of(known.begin(), known.end(), is_it)) return refuse("option", id);
  }
  return {};
}

void WriteMessage(std::string_view text, char* message, size_t message_size) {
  if (message == nullptr || message_size == 0) return;
  const size_t length = std::min(text.size(), message_size - 1);
  std::memcpy(message, text.data(), length);
  message[length] = '\0';
}

}  // namespace attest
