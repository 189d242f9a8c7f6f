// One line on stderr that says what is being run, while a person is watching; nothing where stderr
// is no terminal.
#ifndef ATTEST_HARNESS_REPORT_PROGRESS_H_
#define ATTEST_HARNESS_REPORT_PROGRESS_H_

#include <chrono>
#include <string>

#include "properties/harness/runner/run_property.h"

namespace attest {

class ProgressLine : public RunObserver {
 public:
  ProgressLine();
  ~ProgressLine() override;

  void SetKernel(std::string kernel) { kernel_ = std::move(kernel); }
  void OnCase(const Property& property, int64_t done, int64_t of) override;
  void OnShrink(const Property& property, int64_t tries) override;
  // For properties of models, which are of another type.
  void OnModelCase(std::string_view property, int64_t done, int64_t of);
  // Wipes the line, so that something else can be printed.
  void Clear();

 private:
  void Show(std::string_view property, const std::string& what);

  bool is_terminal_;
  bool is_shown_ = false;
  std::string kernel_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_PROGRESS_H_
