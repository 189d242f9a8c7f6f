// TiledAttention as a plug-in: options, contract, table.
#include <string>

#include "impl/abi/kernel_table.h"
#include "impl/tiled/tiled.h"

namespace attest {
namespace {

class TiledKernel {
 public:
  static constexpr const char* kName = "tiled";
  static constexpr const char* kVersion = "1";

  static tl::expected<TiledKernel, std::string> Create(const CreateOptions& options) {
    if (auto ok = RefuseOthers(options, {"tile", "qtile"}); !ok) return tl::unexpected(ok.error());
    TiledKernel kernel;
    const auto tile = PositiveOption(options, "tile", kernel.options_.tile);
    if (!tile) return tl::unexpected(tile.error());
    const auto qtile = PositiveOption(options, "qtile", kernel.options_.qtile);
    if (!qtile) return tl::unexpected(qtile.error());
    kernel.options_ = {*tile, *qtile, options.threads};
    return kernel;
  }

  // Split is missing from the promises: merging parts by their lse rounds differently.
  std::string Contract() const {
    return R"({
      "contract": "attest-1",
      "bits_invariant": ["hidden_values", "kv_len", "q_len", "batch", "heads", "layout",
                         "mask_form", "threads", "rerun"],
      "min_alignment": 1,
      "options": {"tile": ["1", "3", "16", "64"], "qtile": ["1", "16"]}
    })";
  }

  tl::expected<void, CallError> Forward(const CallView& call) const {
    TiledAttention(call, options_);
    return {};
  }

 private:
  TiledOptions options_;
};

}  // namespace

const attest_kernel_table* TiledKernelTable() {
  return KernelTable<TiledKernel>();
}

}  // namespace attest
