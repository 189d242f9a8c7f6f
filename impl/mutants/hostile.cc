#include "impl/mutants/hostile.h"

#include <pthread.h>
#include <signal.h>

#include <charconv>
#include <cstdlib>

#include "impl/mutants/hostile_acts.h"

namespace attest {
namespace {

using namespace hostile;  // NOLINT: a table of their names

#if defined(__x86_64__)
constexpr std::string_view kMisalignedIs = "crash";
#else
constexpr std::string_view kMisalignedIs = "";  // arm64 allows it
#endif

// Those that only send a signal, end a thread or answer nonsense need no function of their own.
constexpr Misdeed kMisdeeds[] = {
    // crashes and ends
    {"segfault", "reads through a null pointer", "read_fault", Segfault, nullptr},
    {"wild-write", "writes to an address of no memory", "write_fault", WildWrite, nullptr},
    {"jump", "jumps to an address of no code", "crash", Jump, nullptr},
    {"misaligned", "loads a vector from a misaligned address", kMisalignedIs, LoadMisaligned,
     nullptr},
    {"stack-overflow", "recurses without end", "crash", StackOverflow, nullptr},
    {"abort", "aborts", "crash", [](attest_call&, HostileState&) { std::abort(); }, nullptr},
    {"raise", "sends itself SIGSEGV", "crash", [](attest_call&, HostileState&) { raise(SIGSEGV); },
     nullptr},
    {"divide", "sends itself SIGFPE", "crash", [](attest_call&, HostileState&) { raise(SIGFPE); },
     nullptr},
    {"kill-itself", "sends itself SIGKILL", "crash",
     [](attest_call&, HostileState&) { raise(SIGKILL); }, nullptr},
    {"throw", "throws through the C ABI", "crash", Throw, nullptr},
    {"throw-int", "throws an int through the C ABI", "crash", ThrowInt, nullptr},
    {"exit", "exits with status 7 in mid-call", "exit", Exit, nullptr},
    {"exit-0", "exits as if all were well", "exit",
     [](attest_call&, HostileState&) { std::exit(0); }, nullptr},
    {"thread-exit", "ends the thread that called it", "exit",
     [](attest_call&, HostileState&) { pthread_exit(nullptr); }, nullptr},
    {"exit-hanging", "registers an exit handler that hangs", "", ExitHanging, nullptr},
    // time
    {"hang", "waits for ever", "hang", Hang, nullptr},
    {"hang-deaf", "loops for ever with all signals blocked", "hang", HangDeaf, nullptr},
    {"deadlock", "locks a mutex that it holds", "hang", Deadlock, nullptr},
    {"stop", "stops itself with SIGSTOP", "hang",
     [](attest_call&, HostileState&) { raise(SIGSTOP); }, nullptr},
    {"late", "returns what is right, `ms` milliseconds late", "hang", Late, nullptr},
    {"print", "prints a line to stdout and one to stderr", "", Print, nullptr},
    {"endless-print", "prints to stdout and stderr without end", "hang", PrintEndlessly, nullptr},
    // memory
    {"allocate", "asks for 100 GiB", "memory_limit", Allocate, nullptr},
    {"allocate-on", "allocates until it throws", "memory_limit", AllocateOn, nullptr},
    {"allocate-unchecked", "allocates until malloc gives up, and does not look", "memory_limit",
     AllocateUnchecked, nullptr},
    {"leak", "leaks a mebibyte a call", "leak", Leak, nullptr},
    // tensors
    {"read-past", "reads one element past the end of k", "read_fault", ReadPast, nullptr},
    {"read-far-past", "reads ten thousand elements past the end of k", "read_fault", ReadFarPast,
     nullptr},
    {"read-before", "reads one element before the beginning of k", "read_fault", ReadBefore,
     nullptr},
    {"write-past", "writes one element past the end of out", "write_fault|stray_write", WritePast,
     nullptr},
    {"write-before", "writes one element before the beginning of out", "write_fault|stray_write",
     WriteBefore, nullptr},
    {"write-input", "writes to k", "input_changed", WriteInput, nullptr},
    {"force-input", "makes k writable and writes to it", "input_changed", ForceInput, nullptr},
    {"write-gap", "writes between the rows of out", "stray_write", nullptr, WriteGap},
    {"skip-row", "leaves a row of out unwritten", "unwritten", KeepRow, RestoreRow},
    {"skip-out", "writes no output", "unwritten", SkipOutputs, nullptr},
    {"write-later", "starts a thread that writes to out after the call", "late_write", nullptr,
     WriteLater},
    {"write-previous", "writes to out of the call before", "late_write|stray_write|write_fault",
     WritePrevious, nullptr},
    {"scribble", "writes all over the arena", "input_changed", nullptr, Scribble},
    {"scribble-note", "writes all over the crash note", "", nullptr, ScribbleNote},
    {"shrink-arena", "truncates the arena", "", ShrinkArena, nullptr},
    {"grow-arena", "makes the arena 64 GiB long", "", GrowArena, nullptr},
    // answers
    {"nondeterministic", "is off in the last bits, each time otherwise", "value|rerun-differs",
     nullptr, ChangeALittle},
    {"remember", "gives the first value of the call before", "value|call-before", nullptr,
     RememberOutput},
    {"odd-status", "returns a status that there is not", "protocol",
     [](attest_call&, HostileState& s) { s.answer = static_cast<attest_status>(17); }, nullptr},
    {"flush-to-zero", "switches flush-to-zero on", "float_environment", nullptr, FlushToZero},
    {"rounding", "changes the rounding mode", "float_environment", nullptr, Round},
    {"trap", "unmasks floating-point exceptions", "float_environment", nullptr, Trap},
    // processes
    {"fork", "forks, and the child goes on", "left_process", Fork, nullptr},
    {"fork-away", "forks a daemon in a session of its own", "left_process", ForkAway, nullptr},
    {"fork-many", "forks eight daemons", "left_process", ForkMany, nullptr},
    {"fork-and-die", "forks and aborts", "crash", ForkAndDie, nullptr},
    {"fork-and-return", "forks, and both return", "", nullptr, ForkAndReturn},
    {"kill-parent", "kills its parent", "crash", KillParent, nullptr},
    {"stop-parent", "stops its parent", "", StopParent, nullptr},
    {"trace-parent", "attaches to its parent as a debugger", "", TraceParent, nullptr},
    {"kill-group", "kills its process group", "crash", KillGroup, nullptr},
    // descriptors and surroundings
    {"garble", "writes malformed JSON to the control socket", "protocol", Garble, nullptr},
    {"flood", "writes an endless line to the control socket", "protocol", Flood, nullptr},
    {"close-control", "closes the control socket", "protocol", CloseControl, nullptr},
    {"close-all", "closes every descriptor", "protocol", CloseAll, nullptr},
    {"unsettle", "changes folder, umask, locale and environment", "", Unsettle, nullptr},
    {"litter", "writes a file into the current folder", "", Litter, nullptr},
    {"limit-itself", "allows itself no files, no processes and no core", "", LimitItself, nullptr},
    {"block-signals", "blocks all signals", "", BlockSignals, nullptr},
};

}  // namespace

std::span<const Misdeed> Misdeeds() {
  return kMisdeeds;
}

const Misdeed* FindMisdeed(std::string_view id) {
  for (const Misdeed& misdeed : kMisdeeds)
    if (misdeed.id == id) return &misdeed;
  return nullptr;
}

std::optional<std::string> Hostile::Read(const attest_create_info& info, Hostile* hostile) {
  for (uint32_t i = 0; i < info.num_options; ++i)
    if (auto error = hostile->Set(info.options[i].key, info.options[i].value)) return error;
  return std::nullopt;
}

std::optional<std::string> Hostile::Set(std::string_view key, std::string_view value) {
  if (key == "variant") {
    misdeed_ = FindMisdeed(value);
    if (misdeed_ != nullptr) return std::nullopt;
    return "there is no misdeed \"" + std::string(value) + "\"; attest list hostile names them all";
  }
  int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < 1)
    return std::string(key) + "=" + std::string(value) + ": no number of at least 1";
  if (key == "every") {
    every_ = number;
  } else if (key == "role") {
    state_.role = static_cast<int32_t>(number);
  } else if (key == "ms") {
    state_.milliseconds = number;
  } else {
    return "unknown option " + std::string(key) + "; it takes every, role and ms";
  }
  return std::nullopt;
}

}  // namespace attest
