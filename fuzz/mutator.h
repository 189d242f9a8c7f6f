// Mutations of records (properties/harness/case/bytes.h) that mean something: the record is decoded,
// the case changed as one changes a case by hand to provoke a kernel, and encoded again. Every result
// is a record that decodes to a valid case and encodes to the same bytes. libFuzzer calls these
// through record_target.cc.
#ifndef ATTEST_FUZZ_MUTATOR_H_
#define ATTEST_FUZZ_MUTATOR_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "impl/attention/contract.h"
#include "properties/harness/case/bytes.h"
#include "properties/harness/case/random.h"

namespace attest {

struct MutatorSetting {
  const Contract& contract;  // within which fresh cases are drawn
  // Changes `size` bytes anyhow and returns how many they are now, at most `max`: LLVMFuzzerMutate.
  size_t (*mutate_bytes)(uint8_t* data, size_t size, size_t max);
};

// Another record: one to three steps of MutateCase, sometimes changed bytes, sometimes a fresh case.
// Deterministic in its arguments as far as mutate_bytes is.
CaseRecord MutateRecord(std::span<const uint8_t> bytes, uint64_t seed,
                        const MutatorSetting& setting);

// Field by field from one or the other.
CaseRecord CrossRecords(std::span<const uint8_t> a, std::span<const uint8_t> b, uint64_t seed);

// A record from random bytes.
CaseRecord RandomRecord(uint64_t seed);

// The record that encodes what `bytes` decode to.
CaseRecord CanonicalRecord(std::span<const uint8_t> bytes);

// The same record in the places that all versions but the first share, as far as they reach: all of it where its
// masks have at most as many bits as version 2 holds, and it has at most two overrides. For the tests.
CaseRecord InSharedPlaces(const CaseRecord& record);

// One step, drawn from `draw`: a size to a seam +-1, lengths made equal, a row made empty, mask bits
// flipped, another family, a feature switched, a length copied, a hidden value poisoned, the seed,
// layout and storage, extremes of scale, softcap, sinks and slopes, the element type, the diagonal.
// `c` must be valid and stays so; it may stay as it is.
void MutateCase(Case& c, Draw& draw);

}  // namespace attest

#endif  // ATTEST_FUZZ_MUTATOR_H_
