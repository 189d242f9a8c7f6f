#include "impl/reference/statistics.h"

#include <cmath>

namespace attest {

void ErrorStatistics::Add(double error, double spread, double expected) {
  if (!std::isfinite(error) || !std::isfinite(spread) || !std::isfinite(expected)) return;
  if (!(spread > 0)) return;
  ++count_;
  squares_ += (error / spread) * (error / spread);
  if (error == 0 || expected == 0) return;
  ++((error > 0) == (expected > 0) ? away_ : towards_);
}

double ErrorStatistics::rms() const {
  return count_ == 0 ? 0 : std::sqrt(squares_ / static_cast<double>(count_));
}

double ErrorStatistics::bias() const {
  const auto signs = static_cast<double>(away_ + towards_);
  return signs == 0 ? 0 : static_cast<double>(away_ - towards_) / std::sqrt(signs);
}

}  // namespace attest
