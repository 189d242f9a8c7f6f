// Misdeeds that abuse the process, its descriptors, and the processes around it.
#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "impl/mutants/hostile_acts.h"

namespace attest::hostile {
namespace {

// The descriptor of the control socket; see PROTOCOL.md.
constexpr int kControl = 3;
// Few enough to be no danger to the machine.
constexpr int kManyForks = 8;
constexpr size_t kMebibyte = size_t{1} << 20;

// volatile: or the compiler would know
int* volatile g_null = nullptr;
volatile int g_sink;
void* volatile g_leaked;

[[noreturn]] void WaitForever() {
  for (;;) ::pause();
}

__attribute__((noinline)) int Recurse(int depth) {
  volatile char frame[512];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : Recurse(depth + 1) + frame[0];
}

// A grandchild that no longer belongs to the worker's session, group or family.
void ForkDaemon() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    if (::fork() == 0) WaitForever();
    ::_exit(0);
  }
  if (child > 0) ::waitpid(child, nullptr, 0);
}

void Block() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

void SetLimit(int what, rlim_t value) {
  const rlimit limit{value, value};
  ::setrlimit(static_cast<__rlimit_resource>(what), &limit);
}

}  // namespace

void Segfault(attest_call&, HostileState&) {
  g_sink = *g_null;
}

void WildWrite(attest_call&, HostileState&) {
  *reinterpret_cast<volatile int*>(0x5a5a5a5a5000) = 1;
}

void Jump(attest_call&, HostileState&) {
  reinterpret_cast<void (*)()>(uintptr_t{0x1000})();
}

void StackOverflow(attest_call&, HostileState&) {
  g_sink = Recurse(1);
}

void Exit(attest_call&, HostileState&) {
  std::exit(7);
}

void Throw(attest_call&, HostileState&) {
  throw std::runtime_error("not caught\ninside");
}

void ThrowInt(attest_call&, HostileState&) {
  throw 7;
}

void ExitHanging(attest_call&, HostileState& state) {
  if (state.calls == 1) std::atexit([] { WaitForever(); });
}

void Hang(attest_call&, HostileState&) {
  WaitForever();
}

void HangDeaf(attest_call&, HostileState&) {
  Block();
  for (;;) g_sink = 1;
}

void Deadlock(attest_call&, HostileState&) {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  ::pthread_mutex_lock(&mutex);
  ::pthread_mutex_lock(&mutex);
}

void Late(attest_call&, HostileState& state) {
  std::this_thread::sleep_for(std::chrono::milliseconds(state.milliseconds));
}

void Print(attest_call&, HostileState&) {
  std::puts("hello from the kernel");
  std::fputs("and from stderr", stderr);
}

void PrintEndlessly(attest_call&, HostileState&) {
  for (;;) {
    std::puts("all work and no play");
    std::fputs("makes a dull kernel\n", stderr);
  }
}

void Allocate(attest_call&, HostileState&) {
  auto* bytes = new char[100 * 1024 * kMebibyte];
  bytes[0] = 1;
  g_leaked = bytes;
}

void AllocateOn(attest_call&, HostileState&) {
  for (;;) g_leaked = new char[64 * kMebibyte];
}

void AllocateUnchecked(attest_call&, HostileState&) {
  for (;;) *static_cast<volatile char*>(std::malloc(64 * kMebibyte)) = 1;
}

void Leak(attest_call&, HostileState&) {
  void* leaked = std::malloc(kMebibyte);
  if (leaked != nullptr) std::memset(leaked, 1, kMebibyte);
  g_leaked = leaked;
}

#if defined(__x86_64__)
void FlushToZero(attest_call&, HostileState&) {
  _mm_setcsr(_mm_getcsr() | 0x8040);
}
void Trap(attest_call&, HostileState&) {
  _mm_setcsr(_mm_getcsr() & ~0x200U);  // of division by zero
}
#else
namespace {
void SetControl(uint64_t bit) {
  uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  __asm__ volatile("msr fpcr, %0" : : "r"(control | bit));
}
}  // namespace
void FlushToZero(attest_call&, HostileState&) {
  SetControl(uint64_t{1} << 24);
}
void Trap(attest_call&, HostileState&) {
  SetControl(uint64_t{1} << 9);  // of division by zero; not every processor has it
}
#endif

void Round(attest_call&, HostileState&) {
  std::fesetround(FE_UPWARD);
}

void Fork(attest_call&, HostileState&) {
  if (::fork() == 0) WaitForever();
}

void ForkAway(attest_call&, HostileState&) {
  ForkDaemon();
}

void ForkMany(attest_call&, HostileState&) {
  for (int i = 0; i < kManyForks; ++i) ForkDaemon();
}

void ForkAndDie(attest_call&, HostileState&) {
  if (::fork() == 0) WaitForever();
  std::abort();
}

void ForkAndReturn(attest_call&, HostileState&) {
  (void)!::fork();
}

void KillParent(attest_call&, HostileState&) {
  ::kill(::getppid(), SIGKILL);
  WaitForever();
}

void StopParent(attest_call&, HostileState& state) {
  if (state.calls == 1) ::kill(::getppid(), SIGSTOP);
}

void TraceParent(attest_call&, HostileState& state) {
  if (state.calls == 1) ::ptrace(PTRACE_ATTACH, ::getppid(), nullptr, nullptr);
}

void KillGroup(attest_call&, HostileState&) {
  ::kill(0, SIGKILL);
  WaitForever();
}

void Garble(attest_call&, HostileState&) {
  if (::write(kControl, "garbage\n", 8) != 8) std::abort();
}

void Flood(attest_call&, HostileState&) {
  const std::string flood(size_t{1} << 16, 'x');
  while (::write(kControl, flood.data(), flood.size()) > 0) {
  }
}

void CloseControl(attest_call&, HostileState&) {
  ::close(kControl);
}

void CloseAll(attest_call&, HostileState&) {
  for (int fd = 0; fd < 64; ++fd) ::close(fd);
}

void Unsettle(attest_call&, HostileState&) {
  (void)!::chdir("/");
  ::umask(0777);
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  ::clearenv();
}

void Litter(attest_call&, HostileState&) {
  const int file = ::open("attest-hostile-litter", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file >= 0) ::close(file);
}

void LimitItself(attest_call&, HostileState&) {
  for (const int what : {RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_CORE, RLIMIT_FSIZE}) SetLimit(what, 0);
}

void BlockSignals(attest_call&, HostileState&) {
  Block();
}

}  // namespace attest::hostile
