// A model behind the C interface, whatever its scalar: what model_table.cc calls. It reads the
// calls of attest/model.h, checks them, and writes their results.
#ifndef ATTEST_TRANSFORMER_ANY_MODEL_H_
#define ATTEST_TRANSFORMER_ANY_MODEL_H_

#include <attest/model.h>

#include <memory>
#include <string>
#include <tl/expected.hpp>

#include "impl/abi/call_view.h"
#include "impl/transformer/config.h"

namespace attest::transformer {

// One cache that is open.
class AnyCache {
 public:
  virtual ~AnyCache() = default;
  virtual tl::expected<void, CallError> Step(const attest_logits_call& call) = 0;
  // parents [batch], each an item.
  virtual void Reorder(const int64_t* parents) = 0;
  virtual int64_t Bytes() const = 0;
};

class AnyModel {
 public:
  virtual ~AnyModel() = default;
  virtual const std::string& Contract() const = 0;
  virtual tl::expected<void, CallError> Logits(const attest_logits_call& call) = 0;
  virtual tl::expected<std::unique_ptr<AnyCache>, CallError> Open(
      const attest_cache_info& info) = 0;
  virtual void Close(std::unique_ptr<AnyCache> cache) = 0;
  virtual tl::expected<void, CallError> Batch(const attest_batch_call& call) = 0;
};

// A model of the config in float or double; its attention by impl/tiled behind the plug-in
// interface, or by OnlineAttention. The error is one line.
tl::expected<std::unique_ptr<AnyModel>, std::string> MakeAnyModel(const Config& config,
                                                                  bool in_double, bool by_kernel);

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_ANY_MODEL_H_
