// What a model promises, read from the JSON text that its plug-in gives. impl/abi/attest/model.h says what each
// key means; a key that is not there is an error. Callers: all of harness/model, the model's properties.
#ifndef ATTEST_HARNESS_MODEL_CONTRACT_H_
#define ATTEST_HARNESS_MODEL_CONTRACT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "impl/attention/dtype.h"

namespace attest {

enum class ModelKind { kDecoder, kEncoder, kEncoderDecoder };
std::string_view Name(ModelKind kind);  // "decoder" "encoder" "encoder_decoder"

enum class PaddingSide { kNone = 0, kRight = 1, kLeft = 2 };  // the numbers of attest_padding
std::string_view Name(PaddingSide side);                      // "none" "right" "left"

enum class ModelPositions { kUnsaid, kNone, kAbsolute, kRelative };

// What leaves the bits of logits alone.
struct ModelBits {
  bool future = false, padding = false, padding_content = false, batch = false, chunks = false,
       rerun = false;
};

struct CacheGrowth {
  int64_t per_token = 0;  // bytes of one token of one item
  int64_t page = 1;       // tokens that are paid for together
  int64_t slots = 0;      // tokens held at most; 0 = all
};

struct BatcherContract {
  std::optional<int64_t> pad, bos, eos;
  bool packs = false;
  bool joins =
      false;  // documents are one stream, in which each predicts the next one's first token
  bool drops_last = false;   // tokens at the end that fill no row are left out
  bool loses_edges = false;  // what begins a row is learnt by none, for the row before stands alone
};

struct ModelContract {
  ModelKind kind = ModelKind::kDecoder;
  int64_t vocab = 0;
  int64_t max_len = 0;
  int64_t max_source_len = 0;  // 0 unless encoder_decoder
  DType dtype = DType::kF32;
  std::optional<DType>
      precision;  // that it computes in, or keeps its cache in; nullopt: as `dtype`
  std::vector<PaddingSide> padding;  // empty = sequences of one length only
  ModelPositions positions = ModelPositions::kUnsaid;
  bool first_position = false;
  int64_t reach = 0;                // 0 = all
  std::vector<std::string> caches;  // empty = none
  bool reorder = false;
  std::optional<CacheGrowth> cache_bytes;
  std::optional<BatcherContract> batcher;
  ModelBits bits;

  // The coarser one of what it computes in and what its logits are stored in.
  DType Precision() const {
    const bool is_coarser =
        precision && TraitsOf(*precision).unit_roundoff > TraitsOf(dtype).unit_roundoff;
    return is_coarser ? *precision : dtype;
  }
};

// The error is one phrase that names the key, or this one.
inline constexpr std::string_view kNoJson = "is no JSON";
tl::expected<ModelContract, std::string> ParseModelContract(std::string_view json);

// Whether the text is a model's contract, well-formed or not, and no kernel's.
bool IsModelContract(std::string_view json);

// Whether the logits at token `at` may depend on token `from`, both counted from the sequence's first.
bool MayDepend(const ModelContract& contract, int64_t at, int64_t from);

}  // namespace attest

#endif  // ATTEST_HARNESS_MODEL_CONTRACT_H_
