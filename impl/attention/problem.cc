#include "impl/attention/problem.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace attest {
namespace {

// 2^26 elements a tensor: 512 MiB as doubles, the most a reference is run on here. A case file with
// an absurd size must be refused before anything is allocated.
constexpr int64_t kMaxElements = int64_t{1} << 26;
constexpr int64_t kMaxSize = int64_t{1} << 24;

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

std::optional<std::string> CheckPlane(const char* name, const Problem& p, const BitPlane& plane) {
  const Shape4 full = p.WeightsShape();
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

std::optional<std::string> CheckLengths(const Problem& p) {
  if (!p.key_lengths) return std::nullopt;
  if (static_cast<int64_t>(p.key_lengths->size()) != p.batch) {
    return fmt::format("key_lengths has {} entries for batch = {}", p.key_lengths->size(), p.batch);
  }
  for (const int64_t length : *p.key_lengths) {
    if (length < 0 || length > p.kv_len) {
      return fmt::format("key_lengths holds {}, outside 0..kv_len = {}", length, p.kv_len);
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
  if (p.mask) {
    if (auto error = CheckPlane("mask", p, *p.mask)) return error;
  }
  if (p.bias) {
    if (auto error = CheckPlane("bias", p, *p.bias)) return error;
  }
  return std::nullopt;
}

}  // namespace attest
