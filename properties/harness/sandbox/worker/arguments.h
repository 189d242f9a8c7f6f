// A call as the kernel receives it, made from its description in packed words: options, DLPack tensors
// and the arrays that they point to, owned together.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_ARGUMENTS_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_ARGUMENTS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <attest/kernel.h>

#include "properties/harness/sandbox/packed_calls.h"
#include "properties/harness/sandbox/worker/slot_map.h"

namespace attest {

class Arguments {
 public:
  // Takes the next call off the words. Throws std::exception where they are not as impl/abi/PROTOCOL.md
  // says: the server answers that.
  Arguments(WordReader& words, const SlotMap& slots);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // The gradients' tensors stand last; `forward` are those before.
  attest_call* call() { return &call_; }
  uint32_t forward() const { return forward_; }
  // Writes the digest of each output, in the order in which they came, as many as there is room for. Returns the rest
  // of the room.
  std::span<uint64_t> NoteDigests(std::span<uint64_t> room) const;
  // What the kernel wrote as its reason, as one line.
  std::string Message();

 private:
  void AddOption(WordReader& words);
  void AddTensor(WordReader& words, const SlotMap& slots);

  std::vector<attest_option> options_;
  std::vector<int64_t> extents_;  // shape, then strides, of each tensor
  std::vector<DLTensor> tensors_;
  std::vector<size_t> outputs_;  // of tensors_
  std::vector<attest_argument> arguments_;
  std::array<char, 1024> message_{};
  attest_call call_{};
  uint32_t forward_ = 0;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_ARGUMENTS_H_
