// Cases as a fixed record of 256 bytes, for fuzzers: decoding is total (any bytes give a valid
// case), each field has a fixed place so that crossovers keep their meaning, byte 0 is the version
// and old versions decode for ever. 2 has a field for every feature of a problem and for storage; 3 is 2
// with the sizes of models (head_dim to 512, kv_len to 4095); 4 is 3 with the far layouts; 5 is 4 with first
// calls to a cache; any other value means 1, which knows masks, lengths and diagonals alone and holds more of
// their bits. In all of them the work of a case is limited, not each size alone.
#ifndef ATTEST_HARNESS_CASE_BYTES_H_
#define ATTEST_HARNESS_CASE_BYTES_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <tl/expected.hpp>

#include "properties/harness/case/case.h"

namespace attest {

inline constexpr size_t kCaseBytes = 256;
using CaseRecord = std::array<uint8_t, kCaseBytes>;
inline constexpr uint8_t kNewestRecord = 5;  // the newest version

// Any number of bytes; missing ones count as 0, surplus ones are ignored.
Case DecodeCase(std::span<const uint8_t> bytes);

// `c` with the seven sizes of `sizes`, by way of a record, in which sizes stand apart from all that hangs on
// them: masks, lengths and data follow. Nullopt where no version holds both.
std::optional<Case> WithSizesOf(const Case& c, const Case& sizes);

// The record that decodes to exactly `c` (origin aside), or why there is none ("literal tensors do
// not fit", "kv_len 4096 exceeds 4095").
tl::expected<CaseRecord, std::string> EncodeCase(const Case& c);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_BYTES_H_
