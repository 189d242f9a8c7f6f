// `attest_bench peers`: the seeded faults of impl/mutants before the suites that projects judge
// attention by today, as re-created in this folder. Caller: main.cc.
#ifndef ATTEST_BENCH_PEERS_PEERS_H_
#define ATTEST_BENCH_PEERS_PEERS_H_

#include <string>
#include <vector>

namespace attest {

struct PeersOptions {
  std::string suite;  // the name of one; empty: all
  // A folder with a file a mutant that holds the ids of the properties that killed it, as the
  // mutation gate leaves it; empty: attest's own column is left out.
  std::string kills;
  int64_t cases = 0;  // of each suite, the first so many; 0: all
};

std::vector<std::string> PeerSuiteNames();

// Prints suite by suite what it kills and costs, then which suite kills which mutant. False where a
// suite fails the correct kernel, which makes its kills worthless, or the folder of kills cannot be
// read.
bool PrintPeers(const PeersOptions& options);

}  // namespace attest

#endif  // ATTEST_BENCH_PEERS_PEERS_H_
