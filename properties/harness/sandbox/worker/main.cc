// attest_worker: the process in which a kernel runs. attest starts it, with the descriptors and the
// protocol that impl/abi/PROTOCOL.md describes; it is of no use on its own.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "properties/harness/sandbox/sanitized.h"
#include "properties/harness/sandbox/worker/crash_handler.h"
#include "properties/harness/sandbox/worker/server.h"
#include "properties/harness/sandbox/worker_process.h"

#if ATTEST_SANITIZED
// Leaks are not judged here, and the leak check at exit needs ptrace, which containers may refuse.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}
#endif

namespace {

// Kept for the life of the process, between guards of its own: kernels write out of bounds here.
attest::CrashNote* MapNote() {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  void* reserved = ::mmap(nullptr, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  void* note = ::mmap(static_cast<char*>(reserved) + page, page, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_FIXED, attest::kArenaFd, 0);
  return note == MAP_FAILED ? nullptr : static_cast<attest::CrashNote*>(note);
}

}  // namespace

int main() {
  attest::CrashNote* note = MapNote();
  if (note == nullptr) {
    std::fprintf(stderr, "attest_worker: this program is started by attest, not by hand\n");
    return 3;
  }
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  // Lines must be out before a crash, though stdout is a pipe.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  attest::InstallCrashHandler(note);
  const bool served = attest::Server(attest::kControlFd, attest::kArenaFd, note).Serve();
  // exit, not _exit: coverage counts are written there.
  std::exit(served ? 0 : attest::kCannotAnswer);
}
