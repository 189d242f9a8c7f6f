// What a kernel made of a case, lifted back to canonical form: doubles in bhsd order, natural LSE.
// Rows past their query length that the kernel need not write, or that packed calls lack, are 0.
// Properties judge outcomes; they never see a kernel or a byte of its memory.
#ifndef ATTEST_HARNESS_JUDGE_OUTCOME_H_
#define ATTEST_HARNESS_JUDGE_OUTCOME_H_

#include <optional>
#include <string>

#include "impl/attention/array.h"
#include "properties/harness/sandbox/call.h"

namespace attest {

enum class OutcomeStatus {
  kComputed,     // out (and lse, weights where asked for and offered) are there
  kUnsupported,  // the contract, or the kernel itself, does not take this case; `reason` says why
  kRefused,      // a declared feature was refused: a failure
  kFault,        // see `fault`
};

struct Outcome {
  OutcomeStatus status = OutcomeStatus::kFault;
  std::string reason;
  std::optional<Fault> fault;
  bool via_mask = false;  // some feature was lowered to an explicit mask
  Array out;              // [batch, q_heads, q_len, value_dim]
  Array lse;              // [batch, q_heads, q_len, 1]; empty when not asked for or not offered
  Array weights;          // [batch, q_heads, q_len, kv_len]; likewise
  Array scores{};         // [batch, q_heads, q_len, kv_len]; likewise
  // [batch, kv_heads, kv_len, dim]; empty unless the call asks for them (AsksForPresent).
  Array present_k{}, present_v{};
  // Shaped as q, k and v; empty unless gradients were asked for.
  Array dq{}, dk{}, dv{};
  // As Gradient has them (impl/reference/gradient.h); empty, too, where the contract does not offer them, or
  // the call's bias is another than the case's.
  Array dbias{}, dsink{};
};

}  // namespace attest

#endif  // ATTEST_HARNESS_JUDGE_OUTCOME_H_
