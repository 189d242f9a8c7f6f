#include "properties/harness/judge/padding.h"

namespace attest {

PaddingDue PaddingDueOf(const Problem& problem, bool is_packed, const Contract& contract,
                        const Row& row) {
  if (!IsPaddedQuery(problem, row)) return PaddingDue::kAsAnyRow;
  if (is_packed) return PaddingDue::kNothing;
  switch (contract.padded_query_rows) {
    case PaddedQueryRows::kComputed:
      return PaddingDue::kAsAnyRow;
    case PaddedQueryRows::kZero:
      return PaddingDue::kZeroOut;
    case PaddedQueryRows::kUnwritten:
    case PaddedQueryRows::kUnspecified:
      break;
  }
  return PaddingDue::kNothing;
}

}  // namespace attest
