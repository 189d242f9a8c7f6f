#include "properties/transformer/leak_trial.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "properties/harness/case/random.h"

namespace attest {
namespace {

constexpr int kSets = 24;
constexpr int64_t kDocuments = 6, kLongestDocument = 9;
constexpr int64_t kLargestAlphabet = 32;  // a larger one only takes longer to learn

// What a row's position can be predicted from: an input so many positions before it (0 = its own), or one of the
// row's first. Each is believed as it stands, and as a table learnt from earlier sets.
struct Source {
  bool from_begin;
  int64_t distance;
};
constexpr Source kSources[] = {{false, 0}, {false, 1}, {false, 2},
                               {false, 3}, {true, 0},  {true, 1}};
constexpr size_t kNumSources = std::size(kSources);
// An expert a source and way, and one that knows nothing.
constexpr size_t kExperts = 2 * kNumSources + 1;
constexpr double kDoubt = 0.1;  // of a copy

std::string Describe(size_t expert) {
  if (expert == 2 * kNumSources) return "lies in several places";
  const Source& source = kSources[expert % kNumSources];
  const char* how = expert < kNumSources ? "is" : "follows from";
  if (source.from_begin)
    return fmt::format("{} the row's input at position {}", how, source.distance);
  if (source.distance == 0) return fmt::format("{} the input at the same position", how);
  return fmt::format("{} the input {} before", how, source.distance);
}

// Mixes its experts by what they have been worth so far at a position. Frozen within a set.
class Learner {
 public:
  Learner(int64_t alphabet, int64_t len)
      : alphabet_(static_cast<size_t>(alphabet)),
        tables_(kNumSources, std::vector<double>(alphabet_ * alphabet_, 0.5)),
        worth_(static_cast<size_t>(len), std::vector<double>(kExperts, 0)) {}

  // What each expert gives to `target`; inputs and target are letters of the alphabet, -1 = none.
  std::vector<double> Opinions(const Sequence& inputs, size_t at, int64_t target) const {
    const double chance = 1.0 / static_cast<double>(alphabet_);
    std::vector<double> opinions(kExperts, chance);
    for (size_t s = 0; s < kNumSources; ++s) {
      const auto seen = Seen(inputs, at, s);
      if (!seen) continue;
      const double others = kDoubt / static_cast<double>(alphabet_ - 1);
      opinions[s] = *seen == target ? 1 - kDoubt : others;
      const double* row = &tables_[s][static_cast<size_t>(*seen) * alphabet_];
      double sum = 0;
      for (size_t letter = 0; letter < alphabet_; ++letter) sum += row[letter];
      opinions[kNumSources + s] = row[static_cast<size_t>(target)] / sum;
    }
    return opinions;
  }

  // The mixture of opinions at a position.
  double Mixed(const std::vector<double>& opinions, size_t at) const {
    const std::vector<double>& worth = worth_[at];
    const double best = *std::ranges::max_element(worth);
    double sum = 0, weights = 0;
    for (size_t e = 0; e < kExperts; ++e) {
      const double weight = std::exp(worth[e] - best) * (e + 1 == kExperts ? kExperts : 1.0);
      sum += weight * opinions[e];
      weights += weight;
    }
    return sum / weights;
  }

  void Learn(const Sequence& inputs, size_t at, int64_t target,
             const std::vector<double>& opinions) {
    for (size_t e = 0; e < kExperts; ++e) worth_[at][e] += std::log(opinions[e]);
    for (size_t s = 0; s < kNumSources; ++s) {
      if (const auto seen = Seen(inputs, at, s)) {
        tables_[s][static_cast<size_t>(*seen) * alphabet_ + static_cast<size_t>(target)] += 1;
      }
    }
  }

  // The expert that is worth most over all positions.
  size_t Best() const {
    std::vector<double> sum(kExperts, 0);
    for (const auto& worth : worth_) {
      for (size_t e = 0; e < kExperts; ++e) sum[e] += worth[e];
    }
    return static_cast<size_t>(std::ranges::max_element(sum) - sum.begin());
  }

 private:
  static std::optional<int64_t> Seen(const Sequence& inputs, size_t at, size_t source) {
    const auto [from_begin, distance] = kSources[source];
    const int64_t place = from_begin ? distance : static_cast<int64_t>(at) - distance;
    if (place < 0 || place > static_cast<int64_t>(at)) return std::nullopt;
    const int64_t letter = inputs[static_cast<size_t>(place)];
    return letter < 0 ? std::nullopt : std::optional(letter);
  }

  size_t alphabet_;
  std::vector<std::vector<double>> tables_;  // by source: [seen, target], counts
  std::vector<std::vector<double>>
      worth_;  // by position and expert: log of what it has given so far
};

// The tokens that documents are drawn from: all that mean nothing else.
std::vector<int64_t> AlphabetOf(const ModelContract& contract) {
  std::vector<int64_t> letters;
  const BatcherContract& b = *contract.batcher;
  for (int64_t t = 0; t < contract.vocab && std::ssize(letters) < kLargestAlphabet; ++t) {
    if (t != b.pad && t != b.bos && t != b.eos) letters.push_back(t);
  }
  return letters;
}

std::vector<Sequence> DrawDocuments(Draw& draw, const std::vector<int64_t>& letters) {
  std::vector<Sequence> documents(kDocuments);
  for (Sequence& document : documents) {
    document.resize(static_cast<size_t>(draw.Between(2, kLongestDocument)));
    for (int64_t& token : document) token = draw.Pick(letters);
  }
  return documents;
}

// Tokens as indices into the alphabet; -1 for those that are not in it.
Sequence Letters(const Sequence& tokens, const std::vector<int64_t>& letters) {
  Sequence indices;
  for (const int64_t token : tokens) {
    const auto found = std::ranges::find(letters, token);
    indices.push_back(found == letters.end() ? -1 : found - letters.begin());
  }
  return indices;
}

// What one set of rows adds: its mean over rows of the products of V q, and its losses.
struct SetScore {
  double log_mean = 0, loss = 0;
  int64_t targets = 0;
};

SetScore Score(const LearningRows& rows, const std::vector<int64_t>& letters, Learner& learner) {
  const Learner frozen = learner;
  const double log_alphabet = std::log(static_cast<double>(letters.size()));
  SetScore score;
  std::vector<double> evidence;
  for (size_t r = 0; r < rows.inputs.size(); ++r) {
    const Sequence inputs = Letters(rows.inputs[r], letters);
    const Sequence targets = Letters(rows.targets[r], letters);
    double log_product = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!(rows.weights[r][i] > 0) || targets[i] < 0) continue;
      const auto opinions = frozen.Opinions(inputs, i, targets[i]);
      const double log_q = std::log(frozen.Mixed(opinions, i));
      log_product += log_alphabet + log_q;
      score.loss -= log_q;
      ++score.targets;
      learner.Learn(inputs, i, targets[i], opinions);
    }
    evidence.push_back(log_product);
  }
  if (evidence.empty()) return score;
  const double best = *std::ranges::max_element(evidence);
  double sum = 0;
  for (const double one : evidence) sum += std::exp(one - best);
  score.log_mean = best + std::log(sum / static_cast<double>(evidence.size()));
  return score;
}

}  // namespace

tl::expected<LeakTrial, Verdict> RunLeakTrial(const ModelCase& c, ModelLab& lab) {
  const std::vector<int64_t> letters = AlphabetOf(lab.contract());
  LeakTrial trial;
  trial.alphabet = std::ssize(letters);
  if (letters.size() < 2) return trial;
  Draw draw(c.seed);
  std::vector<std::vector<Sequence>> sets;
  sets.reserve(kSets);
  for (int set = 0; set < kSets; ++set) sets.push_back(DrawDocuments(draw, letters));
  const auto all = lab.Batch(sets, c.row_len);
  if (!all) return tl::unexpected(all.error());
  Learner learner(trial.alphabet, c.row_len);
  double loss = 0;
  int64_t late_targets = 0;
  for (int set = 0; set < kSets; ++set) {
    const SetScore score = Score((*all)[static_cast<size_t>(set)], letters, learner);
    trial.log_evidence += score.log_mean;
    trial.targets += score.targets;
    if (set < kSets / 2) continue;
    loss += score.loss;
    late_targets += score.targets;
  }
  trial.loss = late_targets == 0 ? 0 : loss / static_cast<double>(late_targets);
  trial.how = Describe(learner.Best());
  return trial;
}

}  // namespace attest
