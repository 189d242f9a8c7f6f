#include "impl/attention/problem.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace attest {
namespace {

// 2^26 elements a tensor: 512 MiB as doubles, the most a reference is run on here. A case file with
// an absurd size must be refused before anything is allocated.
constexpr int64_t kMaxElements = int64_t{1} << 26;

std::optional<std::string> CheckSizes(const Problem& p) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"batch", p.batch},   {"q_heads", p.q_heads},   {"kv_heads", p.kv_heads},  {"q_len", p.q_len},
      {"kv_len", p.kv_len}, {"head_dim", p.head_dim}, {"value_dim", p.value_dim}};
  for (const auto& [name, size] : sizes) {
    if (size < 0) return fmt::format("{} = {} is negative; sizes start at 0", name, size);
    if (size > kMaxSize) return fmt::format("{} = {} exceeds {}", name, size, kMaxSize);
  }
  if (p.kv_heads == 0 ? p.q_heads != 0 : p.q_heads % p.kv_heads != 0) {
    return fmt::format("kv_heads = {} does not divide q_heads = {}", p.kv_heads, p.q_heads);
  }
  return std::nullopt;
}

std::optional<std::string> CheckVolume(const char* tensor, const Shape4& shape) {
  // An extent of 0 counts as 1: a problem without elements may still have rows to walk. Factors are
  // at most 2^24, so the running product stays below 2^51 before it is checked.
  int64_t count = 1;
  for (const int64_t extent : shape) {
    count *= std::max<int64_t>(extent, 1);
    if (count > kMaxElements) {
      return fmt::format("{} has more than {} elements; make the sizes smaller", tensor,
                         kMaxElements);
    }
  }
  return std::nullopt;
}

std::optional<std::string> CheckVolumes(const Problem& p) {
  for (const auto& [name, shape] : {std::pair<const char*, Shape4>{"q", p.QShape()},
                                    {"k", p.KShape()},
                                    {"v", p.VShape()},
                                    {"out", p.OutShape()},
                                    {"weights", p.WeightsShape()}}) {
    if (auto error = CheckVolume(name, shape)) return error;
  }
  return std::nullopt;
}

std::optional<std::string> CheckPlane(const char* name, const Shape4& full, const BitPlane& plane) {
  if (plane.rank < 2 || plane.rank > 4) {
    return fmt::format("{}.rank = {} is not 2, 3 or 4", name, plane.rank);
  }
  for (size_t axis = 0; axis < 4; ++axis) {
    const int64_t extent = plane.shape[axis];
    if (extent != 1 && extent != full[axis]) {
      return fmt::format("{}.shape[{}] = {} is neither 1 nor the full extent {}", name, axis,
                         extent, full[axis]);
    }
    if (static_cast<int>(axis) < 4 - plane.rank && extent != 1) {
      return fmt::format("{}.shape[{}] = {} must be 1 in a plane of rank {}", name, axis, extent,
                         plane.rank);
    }
  }
  if (static_cast<int64_t>(plane.bits.size()) != ElementCount(plane.shape)) {
    return fmt::format("{} has {} bits where its shape asks for {}", name, plane.bits.size(),
                       ElementCount(plane.shape));
  }
  for (const uint8_t bit : plane.bits) {
    if (bit > 1) return fmt::format("{} holds {}; bits are 0 or 1", name, bit);
  }
  return std::nullopt;
}

// Lengths [batch], each in 0..most.
std::optional<std::string> CheckLengthsOf(const char* name, const Problem& p,
                                          const std::optional<std::vector<int64_t>>& lengths,
                                          const char* most_name, int64_t most) {
  if (!lengths) return std::nullopt;
  if (static_cast<int64_t>(lengths->size()) != p.batch) {
    return fmt::format("{} has {} entries for batch = {}", name, lengths->size(), p.batch);
  }
  for (const int64_t length : *lengths) {
    if (length < 0 || length > most) {
      return fmt::format("{} holds {}, outside 0..{} = {}", name, length, most_name, most);
    }
  }
  return std::nullopt;
}

std::optional<std::string> CheckLengths(const Problem& p) {
  for (const auto& error :
       {CheckLengthsOf("key_lengths", p, p.key_lengths, "kv_len", p.kv_len),
        CheckLengthsOf("query_lengths", p, p.query_lengths, "q_len", p.q_len),
        CheckLengthsOf("prefix_lengths", p, p.prefix_lengths, "kv_len", p.kv_len)}) {
    if (error) return error;
  }
  return std::nullopt;
}

std::optional<std::string> CheckDocuments(const Problem& p) {
  if (!p.documents) return std::nullopt;
  for (const auto& [name, ids, len] : {std::tuple{"query", &p.documents->query, p.q_len},
                                       std::tuple{"key", &p.documents->key, p.kv_len}}) {
    if (static_cast<int64_t>(ids->size()) != p.batch * len) {
      return fmt::format("documents.{} has {} entries, expected batch * len = {}", name,
                         ids->size(), p.batch * len);
    }
  }
  return std::nullopt;
}

// One value a query head, each a value of the lse's type.
std::optional<std::string> CheckPerHead(const char* name, const Problem& p,
                                        const std::optional<std::vector<double>>& values) {
  if (!values) return std::nullopt;
  if (static_cast<int64_t>(values->size()) != p.q_heads) {
    return fmt::format("{} has {} entries for q_heads = {}", name, values->size(), p.q_heads);
  }
  for (const double value : *values) {
    if (!std::isfinite(value)) return fmt::format("{} holds {}, which is not finite", name, value);
    if (RoundTo(p.LseDType(), value) != value) {
      return fmt::format("{} holds {}, which is not a value of {}", name, value,
                         Name(p.LseDType()));
    }
  }
  return std::nullopt;
}

std::optional<std::string> CheckScores(const Problem& p) {
  // Narrower than f32's range, which kernels divide by it in.
  if (p.softcap != 0 && !(p.softcap >= 0x1p-60 && p.softcap <= 0x1p60)) {
    return fmt::format("softcap = {} is outside 2^-60..2^60; 0 is none", p.softcap);
  }
  for (const auto& error :
       {CheckPerHead("alibi_slopes", p, p.alibi_slopes), CheckPerHead("sinks", p, p.sinks)}) {
    if (error) return error;
  }
  if (p.bias_dtype && *p.bias_dtype != DType::kF32) {
    return fmt::format("bias_dtype = {} is not f32; leave it out for a bias of q's type",
                       Name(*p.bias_dtype));
  }
  return std::nullopt;
}

std::optional<std::string> CheckFp8(const Problem& p) {
  if (!p.fp8) return std::nullopt;
  if (!IsFp8(p.fp8->format)) {
    return fmt::format("fp8.format = {} is neither e4m3 nor e5m2", Name(p.fp8->format));
  }
  for (const auto& [name, scale] :
       {std::pair{"q_scale", p.fp8->q_scale}, std::pair{"k_scale", p.fp8->k_scale},
        std::pair{"v_scale", p.fp8->v_scale}}) {
    const bool is_good =
        scale >= 0x1p-60 && scale <= 0x1p60 && RoundTo(DType::kF32, scale) == scale;
    if (!is_good) {
      return fmt::format("fp8.{} = {} is not an f32 value in 2^-60..2^60", name, scale);
    }
  }
  return std::nullopt;
}

std::optional<std::string> CheckDiagonal(const Problem& p) {
  if (!p.diagonal_offset.empty() && static_cast<int64_t>(p.diagonal_offset.size()) != p.batch) {
    return fmt::format("diagonal_offset has {} entries for batch = {}", p.diagonal_offset.size(),
                       p.batch);
  }
  for (const int64_t offset : p.diagonal_offset) {
    if (offset < -kMaxSize || offset > kMaxSize) {
      return fmt::format("diagonal_offset holds {}, outside +-{}", offset, kMaxSize);
    }
  }
  for (const auto& [name, side] :
       {std::pair{"left", p.window.left}, std::pair{"right", p.window.right}}) {
    if (side && (*side < 0 || *side > kMaxSize)) {
      return fmt::format("window.{} = {} is outside 0..{}; leave it out for an open side", name,
                         *side, kMaxSize);
    }
  }
  return std::nullopt;
}

std::optional<std::string> CheckBlockMask(const Problem& p) {
  if (!p.block_mask) return std::nullopt;
  const BlockMask& mask = *p.block_mask;
  if (mask.block_q < 1 || mask.block_k < 1 || mask.block_q > kMaxSize || mask.block_k > kMaxSize) {
    return fmt::format("block_mask's blocks of {} x {} are outside 1..{}", mask.block_q,
                       mask.block_k, kMaxSize);
  }
  const Shape4 full = {p.batch, p.q_heads, (p.q_len + mask.block_q - 1) / mask.block_q,
                       (p.kv_len + mask.block_k - 1) / mask.block_k};
  if (mask.plane.rank != 4) return "block_mask must have rank 4";
  for (size_t axis = 2; axis < 4; ++axis) {
    if (mask.plane.shape[axis] != full[axis]) {
      return fmt::format("block_mask.shape[{}] = {} is not the number of blocks, {}", axis,
                         mask.plane.shape[axis], full[axis]);
    }
  }
  return CheckPlane("block_mask", full, mask.plane);
}

std::optional<std::string> CheckDropout(const Problem& p) {
  if (!p.dropout) return std::nullopt;
  // Nearer to 1, 1 / (1 - p) is mostly the rounding of p.
  if (!(p.dropout->probability >= 0) || !(p.dropout->probability <= 1 - 0x1p-10)) {
    return fmt::format("dropout.probability = {} is outside 0..1 - 2^-10", p.dropout->probability);
  }
  if (p.dropout->keep.rank != 4) return "dropout.keep must have rank 4";
  if (p.dropout->keep.shape != p.WeightsShape()) {
    return "dropout.keep must have the full shape [batch, q_heads, q_len, kv_len]";
  }
  return CheckPlane("dropout.keep", p.WeightsShape(), p.dropout->keep);
}

}  // namespace

double Problem::EffectiveScale() const {
  if (scale) return *scale;
  return head_dim == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(head_dim));
}

std::optional<std::string> Validate(const Problem& p) {
  if (!IsFloat(p.dtype)) return fmt::format("dtype {} is not a floating type", Name(p.dtype));
  if (auto error = CheckSizes(p)) return error;
  if (auto error = CheckVolumes(p)) return error;
  if (p.scale && !std::isfinite(*p.scale)) return fmt::format("scale = {} is not finite", *p.scale);
  if (auto error = CheckDiagonal(p)) return error;
  if (auto error = CheckLengths(p)) return error;
  if (auto error = CheckDocuments(p)) return error;
  if (auto error = CheckScores(p)) return error;
  if (auto error = CheckFp8(p)) return error;
  if (p.want_gradients && p.fp8) return "want_gradients: there are none of fp8 problems";
  if (p.mask) {
    if (auto error = CheckPlane("mask", p.WeightsShape(), *p.mask)) return error;
  }
  if (p.bias) {
    if (auto error = CheckPlane("bias", p.WeightsShape(), *p.bias)) return error;
  }
  if (auto error = CheckBlockMask(p)) return error;
  return CheckDropout(p);
}

}  // namespace attest
