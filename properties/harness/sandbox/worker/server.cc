#include "properties/harness/sandbox/worker/server.h"

#include <cxxabi.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "impl/attention/one_line.h"
#include "properties/harness/sandbox/sanitized.h"
#include "properties/harness/sandbox/worker/backward.h"
#include "properties/harness/sandbox/worker/start_line.h"

namespace attest {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

// Sanitizers reserve terabytes of address space, which no limit would allow.
constexpr bool kLimitAddressSpace = !kSanitized;

std::optional<std::string> LimitMemory(uint64_t bytes) {
  if (!kLimitAddressSpace || bytes == 0) return std::nullopt;
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0) return std::string(std::strerror(errno));
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < bytes) return std::nullopt;
  limit.rlim_cur = limit.rlim_max = bytes;
  if (::setrlimit(RLIMIT_AS, &limit) != 0)
    return fmt::format("cannot set the memory limit of {} bytes: {}", bytes, std::strerror(errno));
  return std::nullopt;
}

std::string Dump(const json& value) {
  // A kernel's text need not be UTF-8.
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The paths of the shared libraries in this process.
std::set<std::string> LoadedLibraries() {
  std::set<std::string> paths;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* into) {
        if (info->dlpi_name != nullptr && info->dlpi_name[0] == '/')
          static_cast<std::set<std::string>*>(into)->insert(info->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

// Replies of quick calls are held back to be sent as one: sending costs more than such a call. Not for longer, so
// that the harness looks at slower calls while the next is computed.
constexpr std::chrono::microseconds kHold{1000};

// What came out of the kernel as an exception, if anything did.
struct Thrown {
  bool any = false;
  bool out_of_memory = false;
  std::string what;
};

// Runs `body`, holding every exception. A thread's forced unwinding (pthread_exit) is none.
template <typename Body>
Thrown Guarded(Body&& body) {
  try {
    body();
  } catch (const std::bad_alloc&) {
    return {true, true, "std::bad_alloc"};
  } catch (const std::exception& error) {
    return {true, false, OneLine(error.what())};
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return {true, false, "of a type that is no std::exception"};
  }
  return {};
}

}  // namespace

Server::Server(int control, int arena, CrashNote* note)
    : control_(control),
      arena_(arena),
      note_(note),
      pid_(::getpid()),
      baseline_(ReadFloatEnvironment()) {}

bool Server::Serve() {
  std::string received;
  std::array<char, 64 * 1024> buffer;
  for (;;) {
    const ssize_t got = ::recv(control_, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return false;
    if (got == 0) break;
    received.append(buffer.data(), static_cast<size_t>(got));
    size_t begin = 0;
    for (std::optional<size_t> taken = 1; taken != 0; begin += *taken) {
      taken = Handle(std::string_view(received).substr(begin));
      if (!taken) return false;
    }
    received.erase(0, begin);
  }
  if (plugin_.table != nullptr) plugin_.table->destroy(plugin_.kernel);
  return true;
}

std::optional<size_t> Server::Handle(std::string_view received) {
  const size_t end = received.find('\n');
  if (end == std::string_view::npos) return 0;
  size_t taken = end + 1;
  int64_t id = 0;
  bool is_answered = false;
  try {
    const json request = json::parse(received.substr(0, end));
    id = request.at("id").get<int64_t>();
    std::string_view packed;
    if (const auto bytes = request.find("packed"); bytes != request.end()) {
      packed = received.substr(end + 1, bytes->get<size_t>());
      taken += bytes->get<size_t>() + 1;
      if (received.size() < taken) return 0;
    }
    is_answered = Dispatch(request, packed, id);
  } catch (const std::exception& error) {
    is_answered = ReplyError(id, fmt::format("bad request: {}", OneLine(error.what())));
  }
  return is_answered ? std::optional(taken) : std::nullopt;
}

bool Server::Dispatch(const json& request, std::string_view packed, int64_t id) {
  const auto& op = request.at("op").get_ref<const std::string&>();
  if (op == "run") return Run(request, packed, id);
  if (op == "map") return Map(request, id);
  if (op == "load") return Load(request, id);
  throw std::invalid_argument("unknown op " + op);
}

bool Server::Load(const json& request, int64_t id) {
  if (request.at("protocol").get<int>() != 1) return ReplyError(id, "unknown protocol version");
  if (const auto error = LimitMemory(request.at("memory_limit").get<uint64_t>()))
    return ReplyError(id, *error);
  const auto path = request.at("library").get<std::string>();
  const auto options = request.at("options").get<StringPairs>();
  const int threads = request.at("threads").get<int>();
  tl::expected<Plugin, std::string> loaded;
  const std::set<std::string> before = LoadedLibraries();
  const Thrown thrown = Guarded([&] { loaded = LoadPlugin(path, options, threads); });
  if (thrown.any)
    return ReplyError(id,
                      fmt::format("{}: threw an exception while loading: {}", path, thrown.what));
  const std::string changed = DescribeChange(baseline_, ReadFloatEnvironment());
  if (!changed.empty()) {
    // Seen where a plug-in is linked with -ffast-math: its start-up code turns flush-to-zero on.
    std::fprintf(stderr,
                 "attest_worker: loading %s changed the floating-point environment (%s); "
                 "it was set back\n",
                 path.c_str(), changed.c_str());
    RestoreFloatEnvironment(baseline_);
  }
  if (!loaded) return ReplyError(id, loaded.error());
  plugin_ = std::move(*loaded);
  std::set<std::string> files = LoadedLibraries();
  for (const std::string& file : before) files.erase(file);
  return Reply(Dump({{"id", id},
                     {"name", plugin_.table->name},
                     {"version", plugin_.table->version},
                     {"contract", plugin_.contract},
                     {"concurrent", true},
                     {"threads", true},
                     {"packed", true},
                     {"digests", true},
                     {"views", SlotMap::CanMapViews()},
                     {"files", files}}));
}

bool Server::Map(const json& request, int64_t id) {
  std::vector<MappedSlot> slots;
  for (const json& slot : request.at("slots"))
    slots.push_back({slot.at("offset").get<uint64_t>(), slot.at("bytes").get<uint64_t>(),
                     slot.at("writable").get<bool>(), slot.value("views", uint64_t{1}),
                     slot.value("apart", uint64_t{0})});
  const auto mapped = slots_.Map(arena_, request.at("guard").get<uint64_t>(), std::move(slots));
  if (!mapped) return ReplyError(id, mapped.error());
  json addresses = json::array();
  for (const MappedSlot& slot : slots_.slots())
    addresses.push_back(reinterpret_cast<uint64_t>(slot.address));
  return Reply(Dump({{"id", id}, {"addresses", std::move(addresses)}}));
}

bool Server::Run(const json& request, std::string_view packed, int64_t id) {
  if (plugin_.table == nullptr) return ReplyError(id, "no kernel is loaded");
  WordReader words(packed);
  const size_t calls = words.Count();
  first_held_ = 0;
  digests_ = note_->digests;
  if (request.value("concurrent", false)) {
    if (!RunAtOnce(words, calls, id)) return false;
  } else {
    auto hold_until = Clock::now() + kHold;
    for (size_t index = 0; index < calls; ++index) {
      Arguments arguments(words, slots_);
      if (!RunCall(arguments, id, index)) return false;
      if (Clock::now() < hold_until) continue;
      if (!ReplyToHeld(id, index + 1)) return false;
      hold_until = Clock::now() + kHold;
    }
  }
  if (!ReplyToHeld(id, calls)) return false;
  std::fflush(stdout);
  return true;
}

bool Server::RunCall(Arguments& arguments, int64_t id, size_t index) {
  note_->in_call = 1;
  Computed computed = Compute(arguments);
  note_->in_call = 0;
  digests_ = arguments.NoteDigests(digests_);
  computed.left_processes = forks_.CountNew();
  return Answer(id, index, arguments, computed);
}

bool Server::RunAtOnce(WordReader& words, size_t calls, int64_t id) {
  std::vector<std::unique_ptr<Arguments>> arguments;
  for (size_t i = 0; i < calls; ++i) {
    arguments.push_back(std::make_unique<Arguments>(words, slots_));
  }
  // What stays of a call whose thread the kernel has ended.
  const Computed ended{ATTEST_FAILED, "", true, false, "the end of the calling thread"};
  std::vector<Computed> computed(arguments.size(), ended);
  StartLine line(arguments.size());
  note_->in_call = 1;
  {
    std::vector<std::jthread> threads;  // joined at the end of the block, whatever happens in it
    try {
      for (size_t i = 0; i < arguments.size(); ++i)
        threads.emplace_back([&, i] {
          if (line.Wait()) computed[i] = Compute(*arguments[i]);
        });
    } catch (const std::system_error&) {
      line.CallOff();
      note_->in_call = 0;
      throw;
    }
  }
  note_->in_call = 0;
  if (!computed.empty()) computed.back().left_processes = forks_.CountNew();
  for (size_t i = 0; i < arguments.size(); ++i)
    if (!Answer(id, i, *arguments[i], computed[i])) return false;
  return true;
}

// Calls the kernel. On any thread: a thread begins with the floating-point environment of the one that
// made it, and changes its own alone.
Computed Server::Compute(Arguments& arguments) const {
  attest_status returned = ATTEST_FAILED;
  int32_t changed = 0;
  const Thrown thrown = Guarded([&] {
    returned =
        RunPasses(*plugin_.table, plugin_.kernel, arguments.call(), arguments.forward(), &changed);
  });
  // A fork that came back instead of the worker, or beside it: it must not speak.
  if (::getpid() != pid_) ::_exit(0);
  Computed computed{NumberOf(returned), "", thrown.any, thrown.out_of_memory, thrown.what, changed};
  const FloatEnvironment after = ReadFloatEnvironment();
  if (after != baseline_) {
    computed.float_environment = DescribeChange(baseline_, after);
    RestoreFloatEnvironment(baseline_);
  }
  return computed;
}

// Replies to a call, unless there is nothing to say but that it went well: that is held back.
bool Server::Answer(int64_t id, size_t index, Arguments& arguments, const Computed& computed) {
  const int status = computed.status;
  if (status == ATTEST_OK && !computed.has_thrown && computed.float_environment.empty() &&
      computed.changed_role == 0 && computed.left_processes == 0) {
    note_->computed = static_cast<uint32_t>(index + 1);
    return true;
  }
  if (!ReplyToHeld(id, index)) return false;
  first_held_ = index + 1;
  const std::string message = status == ATTEST_OK ? std::string() : arguments.Message();
  json reply = {{"id", id}, {"call", index}, {"status", status}, {"message", message}};
  if (!computed.float_environment.empty()) reply["float_environment"] = computed.float_environment;
  if (computed.has_thrown) reply["thrown"] = computed.thrown;
  if (computed.out_of_memory) reply["out_of_memory"] = true;
  if (computed.changed_role != 0) reply["input_changed"] = computed.changed_role;
  if (computed.left_processes > 0) reply["left_processes"] = computed.left_processes;
  return Reply(Dump(reply));
}

// One reply to the calls before `end` that have none: they all went well.
bool Server::ReplyToHeld(int64_t id, size_t end) {
  const size_t first = std::exchange(first_held_, end);
  if (first == end) return true;
  if (first + 1 == end) return Reply(fmt::format(R"({{"id":{},"call":{},"status":0}})", id, first));
  return Reply(fmt::format(R"({{"id":{},"call":{},"through":{},"status":0}})", id, first, end - 1));
}

bool Server::ReplyError(int64_t id, std::string_view error) {
  return Reply(Dump({{"id", id}, {"error", error}}));
}

bool Server::Reply(std::string line) {
  line.push_back('\n');
  std::string_view rest = line;
  while (!rest.empty()) {
    const ssize_t sent = ::send(control_, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    rest.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace attest
