// Where the fuzz targets lie, and how the command line of one is written: what `attest fuzz` knows of
// libFuzzer and of fuzz/.
#ifndef ATTEST_HARNESS_NIGHT_FUZZ_BUILD_H_
#define ATTEST_HARNESS_NIGHT_FUZZ_BUILD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "properties/harness/night/child.h"

namespace attest {

// A folder of targets made in one way.
struct FuzzBuild {
  std::string folder;
  bool sanitized = false;            // AddressSanitizer is in it: slower, and the better judge
  std::vector<std::string> targets;  // "fuzz_mask" ...: those that are there
};

// The builds of presets fuzz-fast and fuzz, beside this program's own.
std::vector<std::string> UsualFuzzFolders();

// The folders that hold targets a night can use. Targets built with the replay main, as g++ makes
// them, are none.
std::vector<FuzzBuild> FindFuzzBuilds(const std::vector<std::string>& folders);

// The seeds in the repository that this program was built in, by target; "" where there are none.
std::string UsualSeedFolder();

// One run of a target.
struct FuzzRun {
  std::string program;
  bool sanitized = false;
  std::string kernel;     // as on the command line
  std::string findings;   // folder for the case of each new signature
  std::string status;     // file that the target keeps up to date
  std::string artifacts;  // prefix for inputs that end it
  std::string log;
  std::vector<std::string> corpora;  // new inputs go to the first
  int64_t seconds = 0;
  uint32_t seed = 1;  // not 0, which means any
};
ChildCommand CommandOf(const FuzzRun& run);

// One replay of an input.
ChildCommand ReplayCommandOf(const FuzzRun& run, const std::string& input);

// The smallest set of inputs in `from` that reach all that they do, into `into`. `control` remembers how far
// it has come, so that an input that ends the target costs no more than itself.
ChildCommand MergeCommandOf(const FuzzRun& run, const std::string& into,
                            const std::vector<std::string>& from, const std::string& control);

}  // namespace attest

#endif  // ATTEST_HARNESS_NIGHT_FUZZ_BUILD_H_
