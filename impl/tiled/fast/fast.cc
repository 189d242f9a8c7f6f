#include "impl/tiled/fast/fast.h"

#include "impl/abi/input_rows.h"
#include "impl/tiled/fast/schedule.h"
#include "impl/tiled/tiled.h"
#include "impl/tiled/visible_keys.h"

namespace attest {
namespace tiled_fast {

FastCall::FastCall(const CallView& view)
    : call(view),
      query_factor(static_cast<float>(view.softcap == 0 ? view.scale * double{kLog2E}
                                                        : view.scale / view.softcap)),
      cap(static_cast<float>(view.softcap * double{kLog2E})),
      has_masks(HasMasks(view)),
      group(view.kv_heads == 0 ? 1 : view.q_heads / view.kv_heads) {}

}  // namespace tiled_fast

void FastAttention(const CallView& call, tiled_fast::ThreadPool& pool) {
  if (call.dtype == DType::kF64 || call.dropout || call.weights || call.scores) {
    return TiledAttention(call, {.threads = pool.threads()});
  }
  tiled_fast::RunCall(tiled_fast::FastCall(call), pool);
  if (!call.present_k && !call.present_v) return;
  tiled_fast::WithStorage(call.dtype, [&](auto zero) { WritePresent<decltype(zero)>(call); });
}

}  // namespace attest
