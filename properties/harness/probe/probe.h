// Finds out by experiment which conventions a black box follows: small decisive calls, whose answers
// are read off one by one, beside what the kernel declares. `attest probe` is the only caller.
// Nothing is lowered by a contract, so a wrong declaration misleads nothing.
#ifndef ATTEST_HARNESS_PROBE_PROBE_H_
#define ATTEST_HARNESS_PROBE_PROBE_H_

#include <string>
#include <vector>

#include "impl/attention/contract.h"
#include "properties/harness/probe/lab.h"

namespace attest::probe {

enum class Agreement {
  kAgrees,       // observed as declared
  kContradicts,  // declared otherwise
  kUndeclared,   // a fact that no promise covers
  kUnknown,      // the experiment could not tell
};

// One convention, with what was seen of it.
struct ProbeLine {
  std::string topic;     // "mask polarity"
  std::string observed;  // "hide"
  std::string declared;  // "attend"; empty where nothing is declared
  std::string evidence;  // "mask rows 100 110 010: rows saw .## ..# #.#"
  Agreement agreement = Agreement::kUnknown;
};

// The keys that each row saw, and those it sees by the declared contract; both as "##." a row.
struct VisibleMatrix {
  std::string asked;  // "causal"
  int64_t q_len = 0, kv_len = 0;
  std::vector<std::string> observed, declared;
};

struct ProbeReport {
  bool answered = false;  // false: the kernel took not even the plainest call; nothing else is set
  std::string refusal;    // why, then
  bool faulted = false;  // and that it was by a crash, a hang or the like, which is a contradiction
  std::vector<VisibleMatrix> matrices;
  std::vector<ProbeLine> lines;
  // What the kernel was seen to do, as a contract that starts from the published one nearest to it. What
  // no experiment decides (arithmetic, limits, bits beyond a rerun) is as declared.
  Contract proposed;
  int calls = 0;

  bool contradicts() const;
};

ProbeReport Probe(Lab& lab, const Contract& declared);

}  // namespace attest::probe

#endif  // ATTEST_HARNESS_PROBE_PROBE_H_
