// What becomes of a failure met while fuzzing: one signature is written once, as a case that `attest
// replay` confirms in a worker, and ends the process once; from then on it is passed over by every
// process that shares the folder.
#ifndef ATTEST_FUZZ_FINDINGS_H_
#define ATTEST_FUZZ_FINDINGS_H_

#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "fuzz/kernels.h"
#include "properties/harness/runner/run_case.h"

namespace attest {

class Findings {
 public:
  // The folder is that of the environment variable ATTEST_FINDINGS, or "attest-findings". "none" is no
  // folder: nothing is remembered and every failure prints its case and aborts, for services that run
  // an input again (ci/ossfuzz_build makes that the default).
  Findings();

  // Whether a failure of this signature, which has no class yet, may still be news.
  bool WantsCause(const FuzzedKernel& kernel, const Signature& signature);

  // Does nothing where the signature is known. Otherwise writes KERNEL-SIGNATURE.toml at once, then
  // shrinks the case for some seconds, replaces the file, prints the sentence and the replay
  // command, and aborts, so that libFuzzer stops.
  void Consider(const Failure& failure, FuzzedKernel& kernel);

 private:
  bool IsKnown(const FuzzedKernel& kernel, const Signature& signature);
  // False where another process was first.
  bool Claim(const std::filesystem::path& path, const std::string& text);
  [[noreturn]] void ShrinkAndAbort(const Failure& failure, FuzzedKernel& kernel,
                                   const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::set<std::string> passed_over_;  // file names, so that the disk is asked once
  std::map<std::string, int> sought_;  // causes sought, by file name without a class
};

}  // namespace attest

#endif  // ATTEST_FUZZ_FINDINGS_H_
