#include "properties/harness/sandbox/protocol.h"

#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "properties/harness/sandbox/packed_calls.h"

namespace attest {
namespace {

using nlohmann::json;

std::string Dump(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// JSON has no infinities and no NaN: those travel as strings.
void AppendNumber(fmt::memory_buffer* out, double value) {
  const char* form = std::isfinite(value) ? "{}" : "\"{}\"";
  fmt::format_to(std::back_inserter(*out), fmt::runtime(form), value);
}

void AppendOptions(fmt::memory_buffer* out, const std::vector<CallOption>& options) {
  const char* separator = "";
  for (const CallOption& option : options) {
    fmt::format_to(std::back_inserter(*out), "{}{{\"id\":{},", separator, option.id);
    if (option.is_float) {
      fmt::format_to(std::back_inserter(*out), "\"f\":");
      AppendNumber(out, option.f);
      out->push_back('}');
    } else {
      fmt::format_to(std::back_inserter(*out), "\"i\":{}}}", option.i);
    }
    separator = ",";
  }
}

void AppendTensors(fmt::memory_buffer* out, const std::vector<PlacedTensor>& tensors) {
  const char* separator = "";
  for (const PlacedTensor& placed : tensors) {
    fmt::format_to(std::back_inserter(*out),
                   "{}{{\"role\":{},\"dtype\":\"{}\",\"shape\":[{}],\"strides\":[{}],"
                   "\"offset\":{}}}",
                   separator, placed.tensor->role, Name(placed.tensor->dtype),
                   fmt::join(placed.tensor->shape, ","),
                   fmt::join(placed.tensor->KernelStrides(), ","), placed.offset);
    separator = ",";
  }
}

void PackCall(const PlacedCall& placed, WordWriter& words) {
  words.Add(std::ssize(placed.call->options));
  for (const CallOption& option : placed.call->options) {
    words.Add(int64_t{option.id});
    words.Add(int64_t{option.is_float});
    option.is_float ? words.Add(option.f) : words.Add(option.i);
  }
  words.Add(std::ssize(placed.tensors));
  for (const PlacedTensor& one : placed.tensors) {
    words.Add(int64_t{one.tensor->role});
    words.Add(static_cast<int64_t>(one.tensor->dtype));
    words.Add(static_cast<int64_t>(one.offset));
    words.Add(std::ssize(one.tensor->shape));
    for (const int64_t extent : one.tensor->shape) words.Add(extent);
    for (const int64_t stride : one.tensor->KernelStrides()) words.Add(stride);
  }
}

std::string Quote(std::string_view line) {
  constexpr size_t kShown = 80;
  return Dump(json(std::string(line.substr(0, kShown)))) + (line.size() > kShown ? "..." : "");
}

std::string Nonsense(std::string_view line) {
  return fmt::format("the worker answered nonsense: {}", Quote(line));
}

// The reply as an object with the right id.
tl::expected<json, std::string> ParseReply(std::string_view line, int64_t id) {
  json reply = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!reply.is_object()) return tl::unexpected(Nonsense(line));
  const auto found = reply.find("id");
  if (found == reply.end() || !found->is_number_integer() || found->get<int64_t>() != id)
    return tl::unexpected(Nonsense(line));
  return reply;
}

// An optional member of the given kind; a member of another kind is an error.
bool TakeString(const json& reply, const char* key, std::string* value) {
  const auto found = reply.find(key);
  if (found == reply.end()) return true;
  if (!found->is_string()) return false;
  *value = found->get<std::string>();
  return true;
}

// Likewise an array of strings.
bool TakeStrings(const json& reply, const char* key, std::vector<std::string>* values) {
  const auto found = reply.find(key);
  if (found == reply.end()) return true;
  if (!found->is_array()) return false;
  for (const json& value : *found) {
    if (!value.is_string()) return false;
    values->push_back(value.get<std::string>());
  }
  return true;
}

// The last call that a reply stands for: `through` holds the first.
bool TakeThrough(const json& reply, size_t calls, size_t* through) {
  const auto found = reply.find("through");
  if (found == reply.end()) return true;
  if (!found->is_number_unsigned()) return false;
  const auto last = found->get<uint64_t>();
  const bool is_one_of_them = last >= *through && last < calls;
  *through = is_one_of_them ? static_cast<size_t>(last) : *through;
  return is_one_of_them;
}

bool IsTrue(const json& reply, const char* key) {
  return reply.value(key, json()) == json(true);
}

}  // namespace

std::string LoadRequest(int64_t id, const KernelSpec& spec, const SessionOptions& options) {
  json pairs = json::array();
  for (const auto& [key, value] : spec.options) pairs.push_back({key, value});
  return Dump({{"op", "load"},
               {"id", id},
               {"protocol", kProtocolVersion},
               {"library", spec.library},
               {"options", std::move(pairs)},
               {"threads", options.threads},
               {"memory_limit", options.memory_limit_bytes}});
}

std::string MapRequest(int64_t id, const Arena& arena) {
  json slots = json::array();
  for (const Slot& slot : arena.slots()) {
    slots.push_back({{"offset", slot.offset}, {"bytes", slot.bytes}, {"writable", slot.writable}});
    if (slot.views > 1) slots.back().update({{"views", slot.views}, {"apart", kFarGapBytes}});
  }
  return Dump({{"op", "map"}, {"id", id}, {"guard", kGuardBytes}, {"slots", std::move(slots)}});
}

std::string RunRequest(int64_t id, std::span<const PlacedCall> calls, bool at_once) {
  fmt::memory_buffer out;
  fmt::format_to(std::back_inserter(out), "{{\"op\":\"run\",\"id\":{},{}\"calls\":[", id,
                 at_once ? "\"concurrent\":true," : "");
  const char* separator = "";
  for (const PlacedCall& placed : calls) {
    fmt::format_to(std::back_inserter(out), "{}{{\"options\":[", separator);
    AppendOptions(&out, placed.call->options);
    fmt::format_to(std::back_inserter(out), "],\"tensors\":[");
    AppendTensors(&out, placed.tensors);
    fmt::format_to(std::back_inserter(out), "]}}");
    separator = ",";
  }
  fmt::format_to(std::back_inserter(out), "]}}");
  return fmt::to_string(out);
}

std::string PackedRunRequest(int64_t id, std::span<const PlacedCall> calls, bool at_once) {
  WordWriter words;
  words.Add(std::ssize(calls));
  for (const PlacedCall& placed : calls) PackCall(placed, words);
  std::string request = fmt::format("{{\"op\":\"run\",\"id\":{},{}\"packed\":{}}}\n", id,
                                    at_once ? "\"concurrent\":true," : "", words.bytes().size());
  return request.append(words.bytes());
}

tl::expected<LoadReply, std::string> ParseLoadReply(std::string_view line, int64_t id) {
  const auto reply = ParseReply(line, id);
  if (!reply) return tl::unexpected(reply.error());
  std::string error;
  if (!TakeString(*reply, "error", &error)) return tl::unexpected(Nonsense(line));
  if (!error.empty()) return tl::unexpected(error);
  LoadReply identity;
  if (!reply->contains("contract") || !TakeString(*reply, "contract", &identity.contract_json) ||
      !TakeString(*reply, "name", &identity.name) ||
      !TakeString(*reply, "version", &identity.version))
    return tl::unexpected(Nonsense(line));
  if (!TakeStrings(*reply, "files", &identity.files)) return tl::unexpected(Nonsense(line));
  identity.can_run_at_once = IsTrue(*reply, "concurrent");
  identity.takes_threads = IsTrue(*reply, "threads");
  identity.takes_packed = IsTrue(*reply, "packed");
  identity.notes_digests = IsTrue(*reply, "digests");
  identity.maps_views = IsTrue(*reply, "views");
  return identity;
}

tl::expected<std::vector<uint64_t>, std::string> ParseMapReply(std::string_view line, int64_t id,
                                                               size_t slots) {
  const auto reply = ParseReply(line, id);
  if (!reply) return tl::unexpected(reply.error());
  std::string error;
  if (!TakeString(*reply, "error", &error)) return tl::unexpected(Nonsense(line));
  if (!error.empty()) return tl::unexpected(error);
  const auto found = reply->find("addresses");
  if (found == reply->end() || !found->is_array() || found->size() != slots)
    return tl::unexpected(Nonsense(line));
  std::vector<uint64_t> addresses;
  for (const json& address : *found) {
    if (!address.is_number_unsigned()) return tl::unexpected(Nonsense(line));
    addresses.push_back(address.get<uint64_t>());
  }
  return addresses;
}

tl::expected<CallReply, std::string> ParseCallReply(std::string_view line, int64_t id, size_t call,
                                                    size_t calls) {
  CallReply result;
  result.through = call;
  // What nearly every reply is, word for word: that of one call, or of all that are left.
  if (line == fmt::format(R"({{"id":{},"call":{},"status":0}})", id, call)) return result;
  if (line ==
      fmt::format(R"({{"id":{},"call":{},"through":{},"status":0}})", id, call, calls - 1)) {
    result.through = calls - 1;
    return result;
  }
  const auto reply = ParseReply(line, id);
  if (!reply) return tl::unexpected(reply.error());
  const auto index = reply->find("call");
  const auto status = reply->find("status");
  const auto is_int = [&](auto found) {
    return found != reply->end() && found->is_number_integer();
  };
  if (!is_int(index) || index->get<int64_t>() != static_cast<int64_t>(call) || !is_int(status) ||
      !TakeString(*reply, "message", &result.message) ||
      !TakeString(*reply, "float_environment", &result.float_environment) ||
      !TakeString(*reply, "thrown", &result.thrown) || !TakeThrough(*reply, calls, &result.through))
    return tl::unexpected(Nonsense(line));
  result.status = status->get<int>();
  result.out_of_memory = IsTrue(*reply, "out_of_memory");
  for (const auto& [key, target] : {std::pair{"left_processes", &result.left_processes},
                                    {"input_changed", &result.changed_role}}) {
    const auto found = reply->find(key);
    if (is_int(found)) *target = found->get<int64_t>();
  }
  return result;
}

}  // namespace attest
