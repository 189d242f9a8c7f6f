// The page that a worker writes and the harness reads: what each output was when its call returned, and when the
// worker dies, how far it had come, and where and how a memory access failed.
// It lies at offset 0 of the arena file, so it outlives the worker. A worker that cannot catch
// signals leaves it zero; the harness then knows the signal only. Hostile kernels can scribble on
// it, so every field is a hint and none is trusted as an index.
#ifndef ATTEST_HARNESS_SANDBOX_CRASH_NOTE_H_
#define ATTEST_HARNESS_SANDBOX_CRASH_NOTE_H_

#include <cstddef>
#include <cstdint>

namespace attest {

// Outputs of one request whose digests there is room for.
inline constexpr size_t kMostDigests = 384;

enum CrashAccess : uint32_t { kAccessUnknown, kAccessRead, kAccessWrite, kAccessExecute };

// Little-endian, as laid out here; impl/abi/PROTOCOL.md lists the offsets.
struct CrashNote {
  uint32_t in_call;        // 1 while the kernel computes, 0 between calls
  int32_t signal;          // 0 = no signal was caught
  int32_t signal_code;     // si_code; SI_KERNEL means that the address is not known
  uint32_t access;         // CrashAccess
  uint64_t address;        // the address that could not be accessed, in the worker
  uint64_t stack_pointer;  // of the thread that failed; 0 = not known
  uint64_t address_space;  // bytes of address space in use when it failed
  // So many calls of the request in hand are computed; those among them that are not answered yet returned OK and
  // leave nothing to say. The harness sets it to 0 before each request.
  uint32_t computed;
  uint32_t reserved;
  // Of each output of the request in hand, calls and tensors in order: the digest of its elements when its call had
  // returned. 0 = not known, as the harness sets it before each request.
  uint64_t digests[kMostDigests];
};
static_assert(sizeof(CrashNote) == 48 + 8 * kMostDigests,
              "the layout is part of the worker protocol");

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_CRASH_NOTE_H_
