// Hunts NaN and infinities made by masks: whatever lengths, causality, windows, boolean and
// additive masks hide, and whatever lies there, a row whose visible inputs are finite must come out
// finite, and an empty row as promised. Kernels: tiled with tiles that the small cases straddle,
// and the reference.
#include <array>
#include <cstddef>
#include <cstdint>

#include "fuzz/in_process.h"
#include "impl/reference/plugin/reference_kernel.h"
#include "impl/tiled/tiled.h"
#include "properties/harness/case/bytes.h"

namespace attest {
namespace {

const std::array<FuzzedKernel, 4>& Kernels() {
  static const std::array<FuzzedKernel, 4> kKernels = {
      OpenFuzzedKernel("tiled?tile=1", TiledKernelTable(), {{"tile", "1"}}),
      OpenFuzzedKernel("tiled?tile=4", TiledKernelTable(), {{"tile", "4"}}),
      OpenFuzzedKernel("tiled", TiledKernelTable(), {}),
      OpenFuzzedKernel("reference", ReferenceKernelTable(), {})};
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
  attest::TestOneCase(c, c.recipe.seed);
  return 0;
}
