// Documents and dropout masks made from a 16-bit seed: what the generator draws, and what the byte
// record holds in place of thousands of numbers. An element depends on the seed and on its own
// place, never on the sizes, so that a case that is cut at the end keeps its seed.
#ifndef ATTEST_HARNESS_CASE_SEEDED_H_
#define ATTEST_HARNESS_CASE_SEEDED_H_

#include <cstdint>
#include <optional>

#include "impl/attention/problem.h"

namespace attest {

// Runs of one number each, rising or coming back after two or three; queries change document with
// the keys or by themselves, and with one seed in four some of them belong to one that has no key.
Documents SeededDocuments(uint16_t seed, const Problem& problem);

// Which weights a dropout keeps, [batch, q_heads, q_len, kv_len]: half of them, nearly all, few,
// all.
BitPlane SeededKeep(uint16_t seed, const Problem& problem);

// The least seed that makes the problem's documents, or its dropout's mask; nullopt without one.
std::optional<uint16_t> FindDocumentsSeed(const Problem& problem);
std::optional<uint16_t> FindKeepSeed(const Problem& problem);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_SEEDED_H_
