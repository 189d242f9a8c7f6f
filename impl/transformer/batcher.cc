#include "impl/transformer/batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace attest::transformer {
namespace {

// A part of a document that stands in one row.
struct Piece {
  const Document* document;
  int64_t first, size;

  std::optional<int64_t> At(int64_t i) const {
    const int64_t place = first + i;
    if (place < 0 || place >= std::ssize(*document)) return std::nullopt;
    return (*document)[static_cast<size_t>(place)];
  }
};

using Row = std::vector<Piece>;

std::vector<Row> RowsOf(const std::vector<Document>& documents, int64_t len, bool pack) {
  std::vector<Row> rows;
  int64_t room = 0;  // in the last row
  for (const Document& document : documents) {
    for (int64_t first = 0; first < std::ssize(document); first += len) {
      const int64_t size = std::min(len, std::ssize(document) - first);
      if (rows.empty() || !pack || size > room) {
        rows.emplace_back();
        room = len;
      }
      rows.back().push_back({&document, first, size});
      room -= size;
    }
  }
  return rows;
}

// What the token at place i of piece n is to predict, if anything.
std::optional<int64_t> TargetOf(const Row& row, size_t n, int64_t i, Fault fault) {
  const Piece& piece = row[n];
  if (fault == Fault::kTargetNotShifted) return piece.At(i);
  if (fault == Fault::kTargetShiftedTwice) return piece.At(i + 2);
  if (fault == Fault::kTargetShiftedBackwards) return piece.At(i - 1);
  const std::optional<int64_t> next = piece.At(i + 1);
  if (next) return next;
  if (fault == Fault::kShiftAcrossDocuments && n + 1 < row.size()) return row[n + 1].At(0);
  if (fault == Fault::kTargetWrapsAround && n + 1 == row.size()) return row.front().At(0);
  return std::nullopt;
}

void AddRow(const Row& row, Fault fault, Lesson& lesson) {
  const int64_t len = lesson.inputs.len, padding_weight = fault == Fault::kPaddingInLoss ? 1 : 0;
  int64_t used = 0;
  for (size_t n = 0; n < row.size(); ++n) {
    for (int64_t i = 0; i < row[n].size; ++i) {
      const std::optional<int64_t> target = TargetOf(row, n, i, fault);
      lesson.inputs.ids.push_back(*row[n].At(i));
      lesson.inputs.documents.push_back(static_cast<int64_t>(n));
      lesson.targets.push_back(target.value_or(0));
      lesson.weights.push_back(target ? 1 : 0);
    }
    used += row[n].size;
  }
  lesson.inputs.begin.push_back(0);
  lesson.inputs.end.push_back(used);
  const auto all = static_cast<size_t>(++lesson.inputs.batch * len);
  lesson.inputs.ids.resize(all, 0);
  lesson.inputs.documents.resize(all, -1);
  lesson.targets.resize(all, 0);
  lesson.weights.resize(all, static_cast<double>(padding_weight));
}

}  // namespace

Lesson MakeLesson(const std::vector<Document>& documents, int64_t len, bool pack, Fault fault) {
  Lesson lesson;
  lesson.inputs.len = len;
  for (const Row& row : RowsOf(documents, len, pack)) AddRow(row, fault, lesson);
  return lesson;
}

Lesson MakeStreamLesson(const std::vector<Document>& documents, int64_t len, int64_t eos,
                        Fault fault) {
  Document stream;
  for (const Document& document : documents) {
    stream.insert(stream.end(), document.begin(), document.end());
    if (fault != Fault::kStreamWithoutEnds) stream.push_back(eos);
  }
  Lesson lesson;
  Tokens& inputs = lesson.inputs;
  inputs.len = len;
  for (int64_t first = 0; first + len < std::ssize(stream); first += len, ++inputs.batch) {
    const auto row = stream.begin() + first;
    inputs.ids.insert(inputs.ids.end(), row, row + len);
    lesson.targets.insert(lesson.targets.end(), row + 1, row + len + 1);
    lesson.weights.insert(lesson.weights.end(), static_cast<size_t>(len), 1);
    if (fault == Fault::kStreamLosesEdges) lesson.weights.back() = 0;
    inputs.documents.insert(inputs.documents.end(), static_cast<size_t>(len), 0);
    inputs.begin.push_back(0);
    inputs.end.push_back(len);
  }
  return lesson;
}

Lesson MakeChunkLesson(const std::vector<Document>& documents, int64_t len, int64_t eos,
                       Fault fault) {
  Document stream;
  for (const Document& document : documents) {
    stream.insert(stream.end(), document.begin(), document.end());
    stream.push_back(eos);
  }
  const int64_t lost = fault == Fault::kChunksLoseTwo ? 2 : 1;  // targets at the edge of a row
  Lesson lesson;
  Tokens& inputs = lesson.inputs;
  inputs.len = len;
  for (int64_t first = 0; first + len <= std::ssize(stream); first += len, ++inputs.batch) {
    int64_t document = 0;
    for (int64_t i = 0; i < len; ++i) {
      const int64_t token = stream[static_cast<size_t>(first + i)];
      const bool has_target = i + lost < len && token != eos;
      inputs.ids.push_back(token);
      inputs.documents.push_back(document);
      lesson.targets.push_back(has_target ? stream[static_cast<size_t>(first + i + 1)] : 0);
      lesson.weights.push_back(has_target ? 1 : 0);
      document += token == eos ? 1 : 0;
    }
    inputs.begin.push_back(0);
    inputs.end.push_back(len);
  }
  return lesson;
}

Document EncodeBytes(std::string_view text, bool end) {
  Document tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  if (end) tokens.push_back(kEndOfText);
  return tokens;
}

tl::expected<std::string, std::string> DecodeBytes(const Document& tokens) {
  std::string text;
  for (const int64_t token : tokens) {
    if (token == kEndOfText) break;
    if (token < 0 || token > 255) return tl::unexpected(fmt::format("token {} is no byte", token));
    text.push_back(static_cast<char>(token));
  }
  return text;
}

}  // namespace attest::transformer
