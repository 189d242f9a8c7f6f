// Runs the cases of a re-created suite over a kernel in this process. Caller: peers.cc.
#ifndef ATTEST_BENCH_PEERS_RUN_H_
#define ATTEST_BENCH_PEERS_RUN_H_

#include "impl/abi/testing/direct_call.h"
#include "impl/reference/reference.h"
#include "properties/bench/peers/peer_case.h"

namespace attest {

// A case with its data and with what its rule compares.
class PreparedCase {
 public:
  explicit PreparedCase(const PeerCase& peer_case);

  // Whether the kernel answers the call and the case's rule accepts what it gives.
  bool Passes(const DirectKernel& kernel) const;

 private:
  bool MergedPasses(const DirectKernel& kernel) const;
  bool OutPasses(Array out) const;
  bool OthersPass(const DirectResult& result) const;

  const PeerCase& case_;
  const Inputs inputs_;
  Reference reference_;
  Array baseline_;  // empty where the rule needs none
};

}  // namespace attest

#endif  // ATTEST_BENCH_PEERS_RUN_H_
