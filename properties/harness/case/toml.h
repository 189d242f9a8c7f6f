// Cases as TOML text: what findings, regressions and bug reports are. Readable, commented, and
// exact: text that is parsed back gives an equal case (floats are written to round-trip).
#ifndef ATTEST_HARNESS_CASE_TOML_H_
#define ATTEST_HARNESS_CASE_TOML_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/case/case.h"

namespace attest {

// What a case file holds beside the case.
struct CaseFile {
  Case c;
  std::optional<std::string> property;  // the property that failed, for `attest replay`
  std::optional<std::string> kernel;    // the kernel it failed on
  std::optional<std::string> finding;   // the one-sentence explanation, a comment for people
  std::vector<Case> before{};           // calls to be made first, in order, on the same kernel
};

// The file's text. Includes recipe_version and the hash of the data.
std::string ToToml(const CaseFile& file);

// Parses `text`; `path` appears in errors, which are one line with the line number:
// "corpus/x.toml:14: kv_heads = 3 does not divide q_heads = 8". Unknown keys are errors. A
// recipe_version or data hash that does not match what this build makes is an error too.
tl::expected<CaseFile, std::string> ParseToml(std::string_view text, std::string_view path);

// Reads and parses a file; the error names the path and what to do.
tl::expected<CaseFile, std::string> ReadCaseFile(const std::string& path);

}  // namespace attest

#endif  // ATTEST_HARNESS_CASE_TOML_H_
