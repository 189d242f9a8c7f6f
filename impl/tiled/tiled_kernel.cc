// TiledAttention and FastAttention as a plug-in, `tiled` and `tiled:fast`: options, contract, table.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "impl/abi/kernel_table.h"
#include "impl/tiled/backward.h"
#include "impl/tiled/fast/fast.h"
#include "impl/tiled/tiled.h"

namespace attest {
namespace {

// Split is missing from the promises: merging parts by their lse rounds differently.
constexpr char kContract[] = R"({
  "contract": "attest-1",
  "bits_invariant": ["hidden_values", "kv_len", "q_len", "batch", "heads", "layout",
                     "mask_form", "threads", "rerun"],
  "backward": ["causal", "window", "key_lengths", "mask", "bias", "mask_with_bias", "gqa",
               "value_dim", "zero_sizes", "mask_broadcast", "mask_key_broadcast", "mask_ranks",
               "bias_f32", "query_lengths", "prefix_lengths", "documents", "block_mask", "softcap",
               "alibi", "sinks", "dropout", "packed", "dbias", "dsink"],
  "min_alignment": 1,
  "options": {"variant": ["fast"], "tile": ["1", "3", "16", "64"], "qtile": ["1", "16"]}
})";

// Weights below the least normal become 0. They are multiplied by V as they are, in f32; but of bf16, where
// the machine has dot products of it, which flush subnormals, they are rounded to bf16 first, as the profile
// of that type has it where a contract says nothing (`probability`).
constexpr char kFastContract[] = R"({
  "contract": "attest-1",
  "bits_invariant": ["hidden_values", "kv_len", "q_len", "batch", "heads", "layout",
                     "mask_form", "threads", "rerun"],
  "backward": ["causal", "window", "key_lengths", "mask", "bias", "mask_with_bias", "gqa",
               "value_dim", "zero_sizes", "mask_broadcast", "mask_key_broadcast", "mask_ranks",
               "bias_f32", "query_lengths", "prefix_lengths", "documents", "block_mask", "softcap",
               "alibi", "sinks", "dropout", "packed", "dbias", "dsink"],
  "min_alignment": 1,
  "numerics": {"f32": {"flush_to_zero": true}, "f16": {"flush_to_zero": true},
               "bf16": {"flush_to_zero": true}}
})";

class TiledKernel {
 public:
  static constexpr const char* kName = "tiled";
  static constexpr const char* kVersion = "1";

  static tl::expected<TiledKernel, std::string> Create(const CreateOptions& options) {
    const auto variant = options.values.find("variant");
    if (variant != options.values.end()) return CreateVariant(options, variant->second);
    if (auto ok = RefuseOthers(options, {"tile", "qtile"}); !ok) return tl::unexpected(ok.error());
    TiledKernel kernel;
    const auto tile = PositiveOption(options, "tile", kernel.options_.tile);
    if (!tile) return tl::unexpected(tile.error());
    const auto qtile = PositiveOption(options, "qtile", kernel.options_.qtile);
    if (!qtile) return tl::unexpected(qtile.error());
    kernel.options_ = {*tile, *qtile, options.threads};
    return kernel;
  }

  std::string Contract() const { return pool_ ? kFastContract : kContract; }

  tl::expected<void, CallError> Forward(const CallView& call) const {
    pool_ ? FastAttention(call, *pool_) : TiledAttention(call, options_);
    return {};
  }

  // One for both: all that it takes of a forward is out and lse.
  tl::expected<void, CallError> Backward(const CallView& call) const {
    return TiledBackward(call, options_);
  }

 private:
  static tl::expected<TiledKernel, std::string> CreateVariant(const CreateOptions& options,
                                                              const std::string& variant) {
    if (variant != "fast") {
      return tl::unexpected(fmt::format("there is no variant \"{}\"; there is \"fast\"", variant));
    }
    if (auto ok = RefuseOthers(options, {"variant"}); !ok) return tl::unexpected(ok.error());
    TiledKernel kernel;
    kernel.options_.threads = options.threads;
    kernel.pool_ = std::make_unique<tiled_fast::ThreadPool>(options.threads);
    return kernel;
  }

  TiledOptions options_;                          // of the readable kernel
  std::unique_ptr<tiled_fast::ThreadPool> pool_;  // of the fast one
};

}  // namespace

const attest_kernel_table* TiledKernelTable() {
  return KernelTable<TiledKernel>();
}

}  // namespace attest
