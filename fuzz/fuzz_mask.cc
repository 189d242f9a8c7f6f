// Hunts NaN and infinities made by masks: whatever lengths, causality, windows, boolean and
// additive masks hide, and whatever lies there, a row whose visible inputs are finite must come out
// finite, and an empty row as promised. Kernels: tiled with tiles that the small cases straddle,
// and the reference.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "fuzz/in_process.h"
#include "impl/mutants/plain.h"
#include "impl/reference/plugin/reference_kernel.h"
#include "impl/tiled/tiled.h"
#include "properties/harness/case/bytes.h"
#include "properties/harness/case/slice.h"

namespace attest {
namespace {

std::vector<FuzzedKernel> OpenKernels() {
  std::vector<FuzzedKernel> kernels;
  // ATTEST_FUZZ_MUTANT puts a seeded fault in place of the kernels: the proof that faults are found.
  if (const char* mutant = std::getenv("ATTEST_FUZZ_MUTANT")) {
    kernels.push_back(OpenFuzzedKernel(std::string("mutant:") + mutant, MutantKernelTable(),
                                       {{"variant", mutant}}));
    return kernels;
  }
  kernels.push_back(OpenFuzzedKernel("tiled?tile=1", TiledKernelTable(), {{"tile", "1"}}));
  kernels.push_back(OpenFuzzedKernel("tiled?tile=4", TiledKernelTable(), {{"tile", "4"}}));
  kernels.push_back(OpenFuzzedKernel("tiled", TiledKernelTable(), {}));
  kernels.push_back(OpenFuzzedKernel("reference", ReferenceKernelTable(), {}));
  return kernels;
}

const std::vector<FuzzedKernel>& Kernels() {
  static const std::vector<FuzzedKernel> kKernels = OpenKernels();
  return kKernels;
}

const Property& Find(std::string_view id) {
  const Property* property = FindProperty(id);
  if (property == nullptr) std::abort();  // the ids below are this program's own
  return *property;
}

const std::array<const Property*, 6>& MaskProperties() {
  static const std::array<const Property*, 6> kMaskProperties = {
      &Find("masks.make_no_nan_or_infinity"),
      &Find("empty_rows.out_is_as_promised"),
      &Find("masks.poison_in_masked_keys_does_not_matter"),
      &Find("masks.poison_in_masked_values_does_not_matter"),
      &Find("masks.poison_in_keys_hidden_by_bias_does_not_matter"),
      &Find("masks.poison_in_values_hidden_by_bias_does_not_matter")};
  return kMaskProperties;
}

// Masks go wrong in small problems already, and small ones are tried a hundred times as often.
Case CutDown(Case c) {
  const auto cut = [&](Axis axis, int64_t most) {
    const int64_t size = SizeOf(c.problem, axis);
    if (size > most) c = Select(c, axis, IndexRange(0, most));
  };
  cut(Axis::kBatch, 2);
  cut(Axis::kQLen, 5);
  cut(Axis::kKvLen, 9);
  cut(Axis::kHeadDim, 3);
  cut(Axis::kValueDim, 3);
  const int64_t kv_heads = std::min<int64_t>(c.problem.kv_heads, 2);
  const int64_t ratio = std::min<int64_t>(c.problem.heads_per_kv_head(), 2);
  return SelectHeads(c, IndexRange(0, kv_heads), ratio);
}

// One kernel and the finiteness claim on every input, one of the others by turns: all pairs would
// cost ten times as much and find nothing sooner.
void TestOneCase(const Case& c, uint64_t turn) {
  const FuzzedKernel& kernel = Kernels()[turn % Kernels().size()];
  FuzzCase(*MaskProperties()[0], c, kernel);
  FuzzCase(*MaskProperties()[1 + turn / 4 % 5], c, kernel);
}

}  // namespace
}  // namespace attest

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const attest::Case c = attest::DecodeCase({data, size});
  attest::TestOneCase(attest::CutDown(c), c.recipe.seed);
  return 0;
}
