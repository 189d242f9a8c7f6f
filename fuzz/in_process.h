// A kernel that runs in this very process, for fuzz targets: the fuzzer needs its coverage and its
// speed, and sanitizers watch its memory. Tensors lie in the same guarded arena as a worker's, so
// what is found here is found again in a worker; but a crash is this process's own.
#ifndef ATTEST_FUZZ_IN_PROCESS_H_
#define ATTEST_FUZZ_IN_PROCESS_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/runner/call_runner.h"
#include "properties/harness/sandbox/arena.h"
#include "properties/harness/sandbox/worker/plugin.h"
#include "properties/harness/sandbox/worker/slot_map.h"

namespace attest {

class InProcessRunner : public CallRunner {
 public:
  // Takes the instance over. The error is one line: no memory for the arena.
  static tl::expected<std::unique_ptr<InProcessRunner>, std::string> Create(const Plugin& plugin);
  ~InProcessRunner() override;
  InProcessRunner(const InProcessRunner&) = delete;
  InProcessRunner& operator=(const InProcessRunner&) = delete;

  // One thread, one call at a time.
  std::optional<Unable> WhyUnable(const CallSetting& setting) override;
  tl::expected<std::vector<CallResult>, Unable> Run(const CallSetting& setting,
                                                    std::span<const Call> calls) override;

 private:
  InProcessRunner(const Plugin& plugin, std::unique_ptr<Arena> arena)
      : plugin_(plugin), arena_(std::move(arena)) {}
  tl::expected<CallResult, Unable> RunOne(const Call& call);
  CallResult Compute(const Call& call, std::byte fill);
  std::byte* AddressOf(const PlacedTensor& placed) const;

  Plugin plugin_;
  std::unique_ptr<Arena> arena_;
  SlotMap slots_;  // of the first frame
};

}  // namespace attest

#endif  // ATTEST_FUZZ_IN_PROCESS_H_
