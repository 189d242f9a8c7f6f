#include "properties/harness/sandbox/fault_words.h"

#include <algorithm>
#include <array>

#include <attest/kernel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "properties/harness/sandbox/model_roles.h"
#include "properties/harness/sandbox/strided.h"

namespace attest {
namespace {

// The axes of a role's tensor, last one last; a tensor of lower rank has the trailing ones.
using Axes = std::array<const char*, 4>;
constexpr Axes kNoAxes = {nullptr, nullptr, nullptr, nullptr};
constexpr Axes kQueryLane = {"batch", "head", "query", "lane"};
constexpr Axes kKeyLane = {"batch", "head", "key", "lane"};
constexpr Axes kQueryKey = {"batch", "head", "query", "key"};
constexpr Axes kRow = {nullptr, "batch", "head", "query"};
constexpr Axes kBatch = {nullptr, nullptr, nullptr, "batch"};
constexpr Axes kHead = {nullptr, nullptr, nullptr, "head"};
constexpr Axes kBatchQuery = {nullptr, nullptr, "batch", "query"};
constexpr Axes kBatchKey = {nullptr, nullptr, "batch", "key"};
constexpr Axes kBatchPage = {nullptr, nullptr, "batch", "page"};
constexpr Axes kTile = {"batch", "head", "tile of queries", "tile of keys"};

constexpr Axes kTokenLane = {nullptr, "batch", "position", "token"};
constexpr Axes kBatchPosition = {nullptr, nullptr, "batch", "position"};
constexpr Axes kRowPosition = {nullptr, nullptr, "row", "position"};

struct RoleWords {
  int32_t role;
  const char* name;
  Axes axes;
};

constexpr RoleWords kRoles[] = {
    {ATTEST_ROLE_Q, "q", kQueryLane},
    {ATTEST_ROLE_K, "k", kKeyLane},
    {ATTEST_ROLE_V, "v", kKeyLane},
    {ATTEST_ROLE_MASK, "mask", kQueryKey},
    {ATTEST_ROLE_BIAS, "bias", kQueryKey},
    {ATTEST_ROLE_KEY_LENGTHS, "key_lengths", kBatch},
    {ATTEST_ROLE_QUERY_LENGTHS, "query_lengths", kBatch},
    {ATTEST_ROLE_CU_KEY_LENGTHS, "cu_key_lengths", kNoAxes},
    {ATTEST_ROLE_CU_QUERY_LENGTHS, "cu_query_lengths", kNoAxes},
    {ATTEST_ROLE_DIAGONAL_OFFSET, "diagonal_offset", kBatch},
    {ATTEST_ROLE_DOCUMENT_IDS, "document_ids", kBatchQuery},
    {ATTEST_ROLE_PREFIX_LENGTHS, "prefix_lengths", kBatch},
    {ATTEST_ROLE_BLOCK_MASK, "block_mask", kTile},
    {ATTEST_ROLE_SINKS, "sinks", kHead},
    {ATTEST_ROLE_ALIBI_SLOPES, "alibi_slopes", kHead},
    {ATTEST_ROLE_DROPOUT_MASK, "dropout_mask", kQueryKey},
    {ATTEST_ROLE_PAST_K, "past_k", kKeyLane},
    {ATTEST_ROLE_PAST_V, "past_v", kKeyLane},
    {ATTEST_ROLE_PAGE_TABLE, "page_table", kBatchPage},
    {ATTEST_ROLE_Q_SCALE, "q_scale", kNoAxes},
    {ATTEST_ROLE_K_SCALE, "k_scale", kNoAxes},
    {ATTEST_ROLE_V_SCALE, "v_scale", kNoAxes},
    {ATTEST_ROLE_KEY_DOCUMENT_IDS, "key_document_ids", kBatchKey},
    {ATTEST_ROLE_RING_START, "ring_start", kBatch},
    {ATTEST_ROLE_OUT, "out", kQueryLane},
    {ATTEST_ROLE_LSE, "lse", kRow},
    {ATTEST_ROLE_WEIGHTS, "weights", kQueryKey},
    {ATTEST_ROLE_SCORES, "scores", kQueryKey},
    {ATTEST_ROLE_PRESENT_K, "present_k", kKeyLane},
    {ATTEST_ROLE_PRESENT_V, "present_v", kKeyLane},
    {ATTEST_ROLE_DOUT, "dout", kQueryLane},
    {ATTEST_ROLE_DQ, "dq", kQueryLane},
    {ATTEST_ROLE_DK, "dk", kKeyLane},
    {ATTEST_ROLE_DV, "dv", kKeyLane},
    {ATTEST_ROLE_DBIAS, "dbias", kQueryKey},
    {ATTEST_ROLE_DSINK, "dsink", kNoAxes},
    {kModelLogits, "logits", kTokenLane},
    {kModelInputs, "inputs", kRowPosition},
    {kModelTargets, "targets", kRowPosition},
    {kModelWeights, "weights", kRowPosition},
    {kModelRows, "rows_used", kNoAxes},
    {kModelCacheBytes, "cache_bytes", kNoAxes},
    {kModelTokens, "tokens", kBatchPosition},
    {kModelLengths, "lengths", kBatch},
    {kModelSource, "source", kBatchPosition},
    {kModelSourceLengths, "source_lengths", kBatch},
    {kModelFirstPosition, "first_position", kBatch},
    {kModelChunks, "chunks", kNoAxes},
    {kModelParents, "parents", kNoAxes},
    {kModelDecoy, "decoy", kBatchPosition},
    {kModelDocuments, "documents", kNoAxes},
    {kModelDocumentLengths, "document_lengths", kNoAxes},
};

const RoleWords* FindRole(int32_t role) {
  const auto* found =
      std::ranges::find_if(kRoles, [&](const RoleWords& words) { return words.role == role; });
  return found == std::end(kRoles) ? nullptr : found;
}

// Up to a whole number of elements.
int64_t RoundUp(int64_t bytes, int64_t size) {
  return (bytes + size - 1) / size * size;
}

int64_t DistanceOf(const CallTensor& tensor, int64_t offset) {
  const auto size = static_cast<int64_t>(ByteSize(tensor.dtype));
  const auto end = static_cast<int64_t>(tensor.image.size());
  if (offset < 0) return -RoundUp(-offset, size);
  return offset >= end ? RoundUp(offset - end + 1, size) : 0;
}

std::string Place(const CallTensor& tensor, int64_t distance, bool inside,
                  const std::vector<int64_t>& index) {
  const std::string name = RoleName(tensor.role);
  if (CountElements(tensor) == 0)
    return distance < 0 ? fmt::format("{} bytes before {}, which is empty", -distance, name)
                        : fmt::format("{} bytes past {}, which is empty", distance, name);
  const std::string element = ElementName(tensor.role, index);
  if (distance > 0)
    return fmt::format("{} bytes past the end of {}, nearest to {}", distance, name, element);
  if (distance < 0)
    return fmt::format("{} bytes before the beginning of {}, nearest to {}", -distance, name,
                       element);
  return inside ? fmt::format("{}, {}", name, element)
                : fmt::format("in a gap between the elements of {}, nearest to {}", name, element);
}

}  // namespace

std::string RoleName(int32_t role) {
  const RoleWords* words = FindRole(role);
  return words == nullptr ? fmt::format("role {}", role) : words->name;
}

std::string ElementName(int32_t role, std::span<const int64_t> index) {
  if (index.empty()) return "the only element";
  const RoleWords* words = FindRole(role);
  const Axes axes = words == nullptr ? kNoAxes : words->axes;
  const bool worded = index.size() <= axes.size() && axes[axes.size() - index.size()] != nullptr;
  if (!worded) return fmt::format("element {}", fmt::join(index, ", "));
  std::string name;
  for (size_t d = 0; d < index.size(); ++d)
    name +=
        fmt::format("{}{} {}", d == 0 ? "" : ", ", axes[axes.size() - index.size() + d], index[d]);
  return name;
}

Fault FaultAt(FaultKind kind, std::string_view verb, const CallTensor& tensor, int64_t offset) {
  Fault fault;
  fault.kind = kind;
  fault.role = tensor.role;
  fault.index = NearestElement(tensor, offset);
  fault.distance_bytes = DistanceOf(tensor, offset);
  const bool inside = IsInsideElement(tensor, offset);
  fault.detail =
      fmt::format("{} {}", verb, Place(tensor, fault.distance_bytes, inside, fault.index));
  return fault;
}

}  // namespace attest
