#include "properties/harness/sandbox/worker/crash_handler.h"

#include <fcntl.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <initializer_list>

#include "properties/harness/sandbox/sanitized.h"

namespace attest {
namespace {

CrashNote* g_note = nullptr;
pid_t g_worker = 0;
std::atomic<pid_t> g_noting = 0;  // the thread that has crashed first
long g_page = 4096;
alignas(16) std::byte g_stack[64 * 1024];

#if defined(__x86_64__)

uint64_t StackPointer(const ucontext_t& context) {
  return static_cast<uint64_t>(context.uc_mcontext.gregs[REG_RSP]);
}

// The page fault's error code: bit 1 = write, bit 4 = instruction fetch.
CrashAccess AccessOf(const ucontext_t& context) {
  const auto error = static_cast<uint64_t>(context.uc_mcontext.gregs[REG_ERR]);
  if ((error & 0x10) != 0) return kAccessExecute;
  return (error & 0x2) != 0 ? kAccessWrite : kAccessRead;
}

#elif defined(__aarch64__)

uint64_t StackPointer(const ucontext_t& context) {
  return context.uc_mcontext.sp;
}

// The exception syndrome lies among the records that the kernel appends to the context: class 0x20
// is an instruction fetch, 0x24 a data access whose bit 6 says write.
CrashAccess AccessOf(const ucontext_t& context) {
  constexpr uint32_t kEsrMagic = 0x45535201;
  const auto* record = reinterpret_cast<const _aarch64_ctx*>(context.uc_mcontext.__reserved);
  const auto* end = context.uc_mcontext.__reserved + sizeof context.uc_mcontext.__reserved;
  while (record->magic != 0 && record->size != 0 &&
         reinterpret_cast<const unsigned char*>(record) < end) {
    if (record->magic == kEsrMagic) {
      const uint64_t syndrome = reinterpret_cast<const uint64_t*>(record + 1)[0];
      if ((syndrome >> 26) == 0x20) return kAccessExecute;
      return (syndrome & 0x40) != 0 ? kAccessWrite : kAccessRead;
    }
    record = reinterpret_cast<const _aarch64_ctx*>(reinterpret_cast<const std::byte*>(record) +
                                                   record->size);
  }
  return kAccessUnknown;
}

#else
#error "attest runs on x86-64 and arm64"
#endif

// Bytes of address space in use, by async-signal-safe calls only; 0 when not known, or not limited.
uint64_t AddressSpace() {
  if (kSanitized) return 0;
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[32] = {};
  const ssize_t size = ::read(file, text, sizeof text);
  ::close(file);
  uint64_t pages = 0;
  for (ssize_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; ++i)
    pages = pages * 10 + static_cast<uint64_t>(text[i] - '0');
  return pages * static_cast<uint64_t>(g_page);
}

bool IsMemoryAccess(int signal) {
  return signal == SIGSEGV || signal == SIGBUS;
}

// Whether this thread is the first that crashes. Another, which crashes meanwhile, waits here for the process to die: by
// its signal it would die at once, with no note or half of one.
bool IsFirst() {
  const pid_t self = ::gettid();
  pid_t noting = 0;
  if (g_noting.compare_exchange_strong(noting, self)) return true;
  while (noting != self) ::pause();
  return false;
}

void OnCrash(int signal, siginfo_t* info, void* context) {
  // A process that the kernel forked shares the note; its death is not the worker's.
  if (::getpid() != g_worker) ::_exit(1);
  if (!IsFirst()) {  // it has crashed in here
    ::signal(signal, SIG_DFL);
    return;
  }
  const auto& machine = *static_cast<const ucontext_t*>(context);
  g_note->signal_code = info->si_code;
  g_note->stack_pointer = StackPointer(machine);
  if (IsMemoryAccess(signal) && info->si_code > 0) {
    g_note->address = reinterpret_cast<uint64_t>(info->si_addr);
    g_note->access = AccessOf(machine);
  }
  g_note->address_space = AddressSpace();
  g_note->signal = signal;
  // Not before the note is written: the crash of another thread would end the process. A fault happens again on return; a
  // signal that was sent must be sent again.
  ::signal(signal, SIG_DFL);
  if (info->si_code <= 0) ::raise(signal);
}

}  // namespace

void InstallCrashHandler(CrashNote* note) {
  g_note = note;
  g_worker = ::getpid();
  g_page = ::sysconf(_SC_PAGESIZE);
  stack_t stack{};
  // Sanitizers bring an alternate stack of their own, and unmap whichever is set at the end.
  if (::sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) != 0) {
    stack.ss_sp = g_stack;
    stack.ss_size = sizeof g_stack;
    stack.ss_flags = 0;
    ::sigaltstack(&stack, nullptr);
  }
  struct sigaction action {};
  action.sa_sigaction = OnCrash;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL})
    ::sigaction(signal, &action, nullptr);
}

}  // namespace attest
