// The loss of a lesson and its gradient: the passes up and down a whole model.
#include <cmath>
#include <optional>
#include <string>

#include "impl/transformer/stack.h"

namespace attest::transformer {
namespace {

// One of the two stacks with its tokens, up and then down.
template <typename T>
class Climber {
 public:
  // All arguments outlive it; `cross` and `memory` are null where the stack sees no source.
  Climber(Pass<T>& pass, const Stack<T>& stack, const Tokens& tokens, bool encoder,
          const Sight* cross, const Matrix<T>* memory)
      : stack_(stack),
        tokens_(tokens),
        positions_(PositionIds(tokens, {})),
        self_(SelfSight(tokens, positions_, IsCausal(pass.config, encoder))),
        pass_{pass, self_, cross, memory, encoder ? 0 : kDecoderSite} {}
  Climber(const Climber&) = delete;
  Climber& operator=(const Climber&) = delete;

  tl::expected<void, std::string> Check() const {
    return CheckTokens(pass_.pass.config, tokens_, positions_);
  }
  Matrix<T> Up(const Weights<T>& weights) {
    return Climb(stack_, pass_, Embed(pass_.pass, weights, stack_, tokens_, positions_), &inputs_);
  }
  // Adds the gradients of everything below, embedding included, from that of Up's result.
  void Down(const Matrix<T>& dtop, Weights<T>& gradient, Stack<T>& stack_gradient,
            Matrix<T>* dmemory) {
    const Matrix<T> dx = Descend(stack_, pass_, inputs_, dtop, stack_gradient, dmemory);
    EmbedBackward(pass_.pass.config, tokens_, positions_, dx, gradient, stack_gradient);
  }

 private:
  const Stack<T>& stack_;
  const Tokens& tokens_;
  std::vector<int64_t> positions_;
  Sight self_;
  StackPass<T> pass_;
  std::vector<Matrix<T>> inputs_;  // of the blocks
};

// The source of an encoder-decoder: its encoder, and what the decoder sees of it.
template <typename T>
struct SourceSide {
  Climber<T> climber;
  Sight cross;
  Matrix<T> memory, dmemory;  // dmemory: the gradient, 0 until the decoder has come down

  SourceSide(Pass<T>& pass, const Weights<T>& weights, const Tokens& tokens, const Tokens& source)
      : climber(pass, weights.encoder, source, /*encoder=*/true, nullptr, nullptr),
        cross(CrossSight(tokens, source)) {}

  tl::expected<void, std::string> Up(const Weights<T>& weights) {
    if (auto ok = climber.Check(); !ok) return ok;
    memory = climber.Up(weights);
    dmemory = Matrix<T>::Zero(memory.rows(), memory.cols());
    return {};
  }
};

}  // namespace

template <typename T>
double CrossEntropy(const Matrix<T>& logits, const Lesson& lesson, Matrix<T>* gradient) {
  const double total = lesson.TotalWeight();
  if (gradient != nullptr) *gradient = Matrix<T>::Zero(logits.rows(), logits.cols());
  double loss = 0;
  for (int64_t r = 0; r < logits.rows(); ++r) {
    const double weight = lesson.weights[static_cast<size_t>(r)];
    if (weight == 0) continue;
    const int64_t target = lesson.targets[static_cast<size_t>(r)];
    const auto row = logits.row(r).template cast<double>();
    const double largest = row.maxCoeff();
    const double log_sum = largest + std::log((row.array() - largest).exp().sum());
    loss += weight / total * (log_sum - row(target));
    if (gradient == nullptr) continue;
    for (int64_t c = 0; c < logits.cols(); ++c) {
      const double share = std::exp(row(c) - log_sum) - (c == target ? 1 : 0);
      (*gradient)(r, c) = static_cast<T>(weight / total * share);
    }
  }
  return loss;
}

template <typename T>
tl::expected<double, std::string> LossAndGradient(const Model<T>& model, const Lesson& lesson,
                                                  const Tokens* source, Weights<T>& gradient,
                                                  std::optional<uint64_t> dropout_seed,
                                                  const Attend<T>& attend,
                                                  const AttendBackward<T>& attend_backward) {
  const Weights<T>& weights = model.weights;
  const bool encoder = model.config.kind == Kind::kEncoder;
  Pass<T> pass = MakePass<T>(model.config, attend, nullptr);
  pass.attend_backward = attend_backward;
  if (dropout_seed) pass.dropout_seed = dropout_seed;
  std::optional<SourceSide<T>> below;
  if (source != nullptr) {
    below.emplace(pass, weights, lesson.inputs, *source);
    if (auto ok = below->Up(weights); !ok) return tl::unexpected("source: " + ok.error());
  }
  Climber<T> climber(pass, encoder ? weights.encoder : weights.decoder, lesson.inputs, encoder,
                     below ? &below->cross : nullptr, below ? &below->memory : nullptr);
  if (auto ok = climber.Check(); !ok) return tl::unexpected(ok.error());
  const Matrix<T> top = climber.Up(weights);
  Matrix<T> dlogits;
  const double loss = CrossEntropy(Head(pass, weights, top), lesson, &dlogits);
  climber.Down(HeadBackward(model.config, weights, top, dlogits, gradient), gradient,
               encoder ? gradient.encoder : gradient.decoder, below ? &below->dmemory : nullptr);
  if (below) below->climber.Down(below->dmemory, gradient, gradient.encoder, nullptr);
  if (pass.error) return tl::unexpected(*pass.error);
  return loss;
}

#define ATTEST_INSTANTIATE(T)                                                              \
  template double CrossEntropy(const Matrix<T>&, const Lesson&, Matrix<T>*);               \
  template tl::expected<double, std::string> LossAndGradient(                              \
      const Model<T>&, const Lesson&, const Tokens*, Weights<T>&, std::optional<uint64_t>, \
      const Attend<T>&, const AttendBackward<T>&);
ATTEST_INSTANTIATE(float)
ATTEST_INSTANTIATE(double)
#undef ATTEST_INSTANTIATE

}  // namespace attest::transformer
