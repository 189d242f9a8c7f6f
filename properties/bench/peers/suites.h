// The suites that are re-created, each in a file of its own: the parameters of its test functions,
// the distribution of its inputs, its rule. Described in README.md, with what was left out. Caller:
// peers.cc.
#ifndef ATTEST_BENCH_PEERS_SUITES_H_
#define ATTEST_BENCH_PEERS_SUITES_H_

#include "properties/bench/peers/peer_case.h"

namespace attest {

PeerSuite OnnxSuite();            // backend tests of the operator Attention
PeerSuite PytorchSuite();         // test_transformers.py, forward only
PeerSuite FlashAttentionSuite();  // test_flash_attn.py, forward only
PeerSuite LlamaCppSuite();        // test-backend-ops, FLASH_ATTN_EXT
PeerSuite FlashInferSuite();      // tests/attention
PeerSuite HandwrittenSuite();     // what a repository of one kernel has: three shapes, allclose

}  // namespace attest

#endif  // ATTEST_BENCH_PEERS_SUITES_H_
