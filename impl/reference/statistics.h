// Statistics over a tensor of errors, for faults too small for any single element to show. They
// rest on roundings erring in either sense, so they only ever raise a suspicion.
#ifndef ATTEST_REFERENCE_STATISTICS_H_
#define ATTEST_REFERENCE_STATISTICS_H_

#include <cstdint>

namespace attest {

class ErrorStatistics {
 public:
  // One element: its error in units of its spread (RowNumbers of SpreadOf), and the sign of
  // error * expected. Elements of spread 0, and non-finite ones, are passed over.
  void Add(double error, double spread, double expected);

  int64_t count() const { return count_; }
  // Root mean square of error / spread: at most 1 for correct kernels (largest seen: see BOUND.md).
  double rms() const;
  // How far the errors lean away from zero or towards it: (#away - #towards) / sqrt(#both). Means
  // something for 1000 elements or more of identically distributed normal values only.
  double bias() const;

 private:
  int64_t count_ = 0, away_ = 0, towards_ = 0;
  double squares_ = 0;
};

constexpr double kRmsLimit = 1.25;      // the largest seen on correct kernels is 1.00
constexpr int64_t kRmsLeastCount = 64;  // a mean of few elements may lie anywhere below P / spread
constexpr double kBiasLimit =
    16;  // the largest seen on correct kernels that round to nearest is 15.5
constexpr int64_t kBiasLeastCount = 1000;

}  // namespace attest

#endif  // ATTEST_REFERENCE_STATISTICS_H_
