// One kernel call as the sandbox sees it: images of memory with shapes and strides, no meaning.
// The lowering makes calls from cases; the sandbox runs them in a worker process and reports what
// came back and what went wrong. Plain values; no ownership beyond the vectors.
#ifndef ATTEST_HARNESS_SANDBOX_CALL_H_
#define ATTEST_HARNESS_SANDBOX_CALL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "impl/attention/dtype.h"
#include "properties/harness/case/case.h"

namespace attest {

// How much further apart than in its image the parts of a far tensor lie for the kernel: more than 2^31 elements
// of any type. What is left of a multiple of it in 32 bits, counted in bytes or in elements, is far from any part.
inline constexpr uint64_t kFarGapBytes = 8 * ((uint64_t{1} << 31) + (uint64_t{1} << 24));
// The most parts there may be: address space is finite.
inline constexpr int64_t kMaxFarParts = 64;

// One tensor of a call. `image` is its whole storage, gaps included, element 0 first (strides are
// never negative); for an output it holds only the size, its content is ignored.
struct CallTensor {
  int32_t role = 0;  // attest_role
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements
  bool is_output = false;
  std::vector<std::byte> image;
  // A far tensor: its image consists of so many equal parts, and the kernel, which sees each kFarGapBytes
  // further from the one before than in the image, is given these strides in place of `strides`.
  int64_t far_parts = 1;
  std::vector<int64_t> far_strides{};

  const std::vector<int64_t>& KernelStrides() const {
    return far_strides.empty() ? strides : far_strides;
  }
  // Of an output, by element in row-major order: 1 where the kernel need not write. Empty = it must
  // write everything.
  std::vector<uint8_t> may_stay_unwritten{};
};

struct CallOption {
  int32_t id = 0;  // attest_option_id
  bool is_float = false;
  int64_t i = 0;
  double f = 0;
};

struct Call {
  std::vector<CallOption> options;
  std::vector<CallTensor> tensors;
  Placement placement = Placement::kEnd;
  int64_t min_alignment = 16;  // of every tensor's first byte, never below its element size
  uint8_t poison = 0xFF;       // fills slack around inputs; reads of it are legal, effects are not
};

enum class CallStatus { kOk, kUnsupported, kInvalidArgument, kFailed, kFault };

// What went wrong with a call, beside the values it computed.
enum class FaultKind {
  kReadFault,         // read outside every tensor, or before or past one
  kWriteFault,        // wrote outside every tensor, or before or past one
  kInputChanged,      // tried to write an input (inputs are read-only in the worker)
  kStrayWrite,        // wrote beside an output's elements: slack or gap
  kUnwritten,         // left an output element as it was, under two different fills
  kCrash,             // died by another signal
  kExit,              // ended the process
  kHang,              // passed the deadline
  kMemoryLimit,       // passed the memory limit
  kFloatEnvironment,  // changed rounding mode or flush-to-zero and left it so
  kProtocol,          // the worker answered nonsense
  kLeftProcess,       // forked, and left the child running
  kLateWrite,         // wrote to an output after the call had returned
  kLeak,              // uses more memory with each call
};

struct Fault {
  FaultKind kind = FaultKind::kCrash;
  int32_t role = 0;            // tensor concerned, 0 = none
  std::vector<int64_t> index;  // element concerned; for reads and writes past an end the nearest
  int64_t distance_bytes = 0;  // bytes past the end (> 0) or before the beginning (< 0); 0 = inside
  std::string detail;          // one sentence: "read 4 bytes past the end of K, batch 0, head 1"
  // The access was one to that element by an offset of which 32 bits were kept.
  bool is_cut_offset = false;
};

struct CallResult {
  CallStatus status = CallStatus::kFault;
  std::string message;         // the kernel's reason, or empty
  std::optional<Fault> fault;  // set whenever something went wrong, even with status kOk
  // Storage of each output tensor, in the order of the call's outputs; empty unless the kernel
  // returned OK. Bytes between elements hold the fill.
  std::vector<std::vector<std::byte>> outputs;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_CALL_H_
