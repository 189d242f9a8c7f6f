// From documents to lessons: rows of tokens, what is to be predicted at each, and how much it
// counts. The target of a token is the next one of its own document; the last has none. And the
// byte tokenizer before it.
#ifndef ATTEST_TRANSFORMER_BATCHER_H_
#define ATTEST_TRANSFORMER_BATCHER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "impl/transformer/faults.h"
#include "impl/transformer/model.h"

namespace attest::transformer {

using Document = std::vector<int64_t>;

// Rows of `len` tokens, padded on the right. A document longer than that goes on in a row of its
// own, and its tokens keep their targets across the cut. With `pack` a row holds several documents
// where they fit, numbered in Places::documents, so that none sees another. Empty documents leave
// no trace.
Lesson MakeLesson(const std::vector<Document>& documents, int64_t len, bool pack,
                  Fault fault = Fault::kNone);

// The documents as one stream, `eos` behind each, cut into rows of `len`: the target of a token is the next one of the
// stream, the first of the next document too. What does not fill a row at the end is dropped. Rows are numbered as one
// document each: their tokens see one another.
Lesson MakeStreamLesson(const std::vector<Document>& documents, int64_t len, int64_t eos,
                        Fault fault = Fault::kNone);

// The documents end to end, `eos` behind each, cut into rows of `len` that each stand alone: the target of a token is the
// next one of its document, its end included, where that lies in the same row. So the last token of a row has none, and
// the first of the next is learnt by none. What does not fill a row at the end is dropped.
Lesson MakeChunkLesson(const std::vector<Document>& documents, int64_t len, int64_t eos,
                       Fault fault = Fault::kNone);

// Bytes as tokens 0 to 255, and one more to end a text.
inline constexpr int64_t kEndOfText = 256;
inline constexpr int64_t kByteVocab = 257;

Document EncodeBytes(std::string_view text, bool end = true);

// The text up to its end. A token that is no byte is an error.
tl::expected<std::string, std::string> DecodeBytes(const Document& tokens);

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_BATCHER_H_
