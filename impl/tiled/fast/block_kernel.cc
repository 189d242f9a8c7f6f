// Compiles the vector code for every target of Highway and picks one when the program runs.
#include "impl/tiled/fast/block_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "impl/tiled/fast/block_kernel.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "impl/tiled/fast/few_rows-inl.h"
#include "impl/tiled/fast/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attest::tiled_fast::HWY_NAMESPACE {

int64_t RowsOfPanel() {
  return static_cast<int64_t>(kVectors * hn::Lanes(Floats()));
}

BlockKernel* MakePanelKernel(const FastCall& fast, int64_t rows) {
  return new PanelKernel(fast, rows);
}

BlockKernel* MakeFewRowsKernel(const FastCall& fast) {
  return new FewRowsKernel(fast);
}

}  // namespace attest::tiled_fast::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attest::tiled_fast {

HWY_EXPORT(RowsOfPanel);
HWY_EXPORT(MakePanelKernel);
HWY_EXPORT(MakeFewRowsKernel);

int64_t PanelRows() {
  return HWY_DYNAMIC_DISPATCH(RowsOfPanel)();
}

std::unique_ptr<BlockKernel> NewPanelKernel(const FastCall& fast, int64_t rows) {
  return std::unique_ptr<BlockKernel>(HWY_DYNAMIC_DISPATCH(MakePanelKernel)(fast, rows));
}

std::unique_ptr<BlockKernel> NewFewRowsKernel(const FastCall& fast) {
  return std::unique_ptr<BlockKernel>(HWY_DYNAMIC_DISPATCH(MakeFewRowsKernel)(fast));
}

}  // namespace attest::tiled_fast
#endif  // HWY_ONCE
