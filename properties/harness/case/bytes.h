// Cases as a fixed record of 256 bytes, for fuzzers: decoding is total (any bytes give a valid
// case), each field has a fixed place so that crossovers keep their meaning, byte 0 is the version
// and old versions decode for ever. 2 has a field for every feature of a problem and for storage;
// any other value means 1, which knows masks, lengths and diagonals alone and holds more of their
// bits.
#ifndef ATTEST_HARNESS_CASE_BYTES_H_
#define ATTEST_HARNESS_CASE_BYTES_H_

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include <tl/expected.hpp>

#include "properties/harness/case/case.h"

namespace attest {

inline constexpr size_t kCaseBytes = 256;
using CaseRecord = std::array<uint8_t, kCaseBytes>;

// Any number of bytes; missing ones count as 0, surplus ones are ignored.
Case DecodeCase(std::span<const uint8_t> bytes);

// The record that decodes to exactly `c` (origin aside), or why there is none ("literal tensors do
// not fit", "kv_len 4096 exceeds 255").
tl::expected<CaseRecord, std::string> EncodeCase(const Case& c);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_BYTES_H_
