// A block of a Transformer: self-attention, cross-attention where there is a source, feed-forward,
// each with its norm and its residual.
#ifndef ATTEST_TRANSFORMER_BLOCK_H_
#define ATTEST_TRANSFORMER_BLOCK_H_

#include "impl/transformer/layers.h"
#include "impl/transformer/multi_head.h"
#include "impl/transformer/pass.h"

namespace attest::transformer {

template <typename T>
struct Block {
  Norm<T> self_norm;
  MultiHead<T> self;
  Norm<T> cross_norm;  // no elements where the stack has no source, and so `cross`
  MultiHead<T> cross;
  Norm<T> feed_norm;
  FeedForward<T> feed;

  bool has_cross() const { return cross.o.weight.size() != 0; }
};

// What all blocks of a stack share.
template <typename T>
struct StackPass {
  Pass<T>& pass;
  const Sight& self;
  const Sight* cross = nullptr;
  const Matrix<T>* memory = nullptr;  // the encoded source, of a stack that sees one
  uint64_t site = 0;                  // where the stack's dropout begins
};

template <typename T>
Matrix<T> Dropped(const Pass<T>& pass, Matrix<T> x, uint64_t site) {
  if (!pass.dropout_seed) return x;
  return Dropout(std::move(x), pass.config.dropout, *pass.dropout_seed, site);
}

// x + f(norm(x)), or norm(x + f(x)) where the norm is placed after.
template <typename T, typename F>
Matrix<T> Residual(const Pass<T>& pass, const Norm<T>& norm, uint64_t site, const Matrix<T>& x,
                   F&& f) {
  const Config& c = pass.config;
  if (c.placement == Placement::kPre && !pass.StepFault(Fault::kNormAfter)) {
    return x + Dropped(pass, f(Forward(norm, c.norm, x, c.fault)), site);
  }
  const Matrix<T> sum = x + Dropped(pass, f(x), site);
  return Forward(norm, c.norm, sum, c.fault);
}

// Its gradient. backward(x of f, gradient of f's result) gives that of f's x.
template <typename T, typename F, typename B>
Matrix<T> ResidualBackward(const Pass<T>& pass, const Norm<T>& norm, uint64_t site,
                           const Matrix<T>& x, const Matrix<T>& dy, F&& f, B&& backward,
                           Norm<T>& gradient) {
  const Config& c = pass.config;
  if (c.placement == Placement::kPre) {
    const Matrix<T> dnormal = backward(Forward(norm, c.norm, x), Dropped(pass, dy, site));
    return dy + Backward(norm, c.norm, x, dnormal, gradient);
  }
  const Matrix<T> sum = x + Dropped(pass, f(x), site);
  const Matrix<T> dsum = Backward(norm, c.norm, sum, dy, gradient);
  return dsum + backward(x, Dropped(pass, dsum, site));
}

// A block's sub-layers in order, each from what the one before gave.
template <typename T>
struct BlockSteps {
  const Block<T>& block;
  StackPass<T>& stack;
  int64_t index;  // of the block

  uint64_t Site(uint64_t sublayer) const {
    return stack.site + 4 * static_cast<uint64_t>(index) + sublayer;
  }

  Matrix<T> AttendSelf(const Matrix<T>& x) const {
    return Forward(block.self, stack.pass, stack.self, index, x, x);
  }
  Matrix<T> AttendSource(const Matrix<T>& x) const {
    return Forward(block.cross, stack.pass, *stack.cross, index, x, *stack.memory);
  }
  Matrix<T> Feed(const Matrix<T>& x) const {
    return Forward(block.feed, stack.pass.config.activation, x);
  }

  Matrix<T> Self(const Matrix<T>& x) const {
    return Residual(stack.pass, block.self_norm, Site(0), x,
                    [&](const Matrix<T>& n) { return AttendSelf(n); });
  }
  Matrix<T> Cross(const Matrix<T>& x) const {
    if (!block.has_cross()) return x;
    return Residual(stack.pass, block.cross_norm, Site(1), x,
                    [&](const Matrix<T>& n) { return AttendSource(n); });
  }
  Matrix<T> FeedForward(const Matrix<T>& x) const {
    const bool dropped = stack.pass.StepFault(Fault::kResidualDropped);
    Matrix<T> y = Residual(stack.pass, block.feed_norm, Site(2), x,
                           [&](const Matrix<T>& n) { return Feed(n); });
    return dropped ? Matrix<T>(y - x) : y;
  }
};

template <typename T>
Matrix<T> Forward(const Block<T>& block, StackPass<T>& stack, int64_t index, const Matrix<T>& x) {
  const BlockSteps<T> steps{block, stack, index};
  return steps.FeedForward(steps.Cross(steps.Self(x)));
}

// The gradient of x; that of the memory is added to *dmemory where there is a source.
template <typename T>
Matrix<T> Backward(const Block<T>& block, StackPass<T>& stack, int64_t index, const Matrix<T>& x,
                   const Matrix<T>& dy, Block<T>& gradient, Matrix<T>* dmemory) {
  const BlockSteps<T> steps{block, stack, index};
  Pass<T>& pass = stack.pass;
  const Matrix<T> after_self = steps.Self(x);
  const Matrix<T> after_cross = steps.Cross(after_self);
  Matrix<T> d = ResidualBackward(
      pass, block.feed_norm, steps.Site(2), after_cross, dy,
      [&](const Matrix<T>& n) { return steps.Feed(n); },
      [&](const Matrix<T>& n, const Matrix<T>& dn) {
        return Backward(block.feed, pass.config.activation, n, dn, gradient.feed);
      },
      gradient.feed_norm);
  if (block.has_cross()) {
    d = ResidualBackward(
        pass, block.cross_norm, steps.Site(1), after_self, Matrix<T>(d),
        [&](const Matrix<T>& n) { return steps.AttendSource(n); },
        [&](const Matrix<T>& n, const Matrix<T>& dn) {
          auto [dx, dsource] =
              Backward(block.cross, pass, *stack.cross, n, *stack.memory, dn, gradient.cross);
          *dmemory += dsource;
          return dx;
        },
        gradient.cross_norm);
  }
  return ResidualBackward(
      pass, block.self_norm, steps.Site(0), x, d,
      [&](const Matrix<T>& n) { return steps.AttendSelf(n); },
      [&](const Matrix<T>& n, const Matrix<T>& dn) {
        return Backward(block.self, pass, stack.self, n, n, dn, gradient.self).first;
      },
      gradient.self_norm);
}

}  // namespace attest::transformer

#endif  // ATTEST_TRANSFORMER_BLOCK_H_
