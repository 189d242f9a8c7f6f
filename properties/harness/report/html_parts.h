// The parts of the report page, and the anchors by which they link to each other. Private to the HTML
// writer.
#ifndef ATTEST_HARNESS_REPORT_HTML_PARTS_H_
#define ATTEST_HARNESS_REPORT_HTML_PARTS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <pugixml.hpp>

#include "properties/harness/report/finding_groups.h"
#include "properties/harness/report/run_report.h"

namespace attest::html {

// Findings in the order of the page, numbered from 1 through all kernels; those beyond the page's
// bounds have no anchor. The report must outlive it.
class Anchors {
 public:
  explicit Anchors(const RunReport& report);

  const std::vector<FindingGroup>& GroupsOfKernel(size_t kernel) const { return groups_[kernel]; }
  size_t findings() const { return findings_; }                // in all
  static std::string Kernel(size_t kernel);                    // "k1"
  std::string Finding(const ReportedFinding& reported) const;  // "f12"; "" beyond the bounds
  // Of the first finding on the page under the property's name; "" without.
  std::string FindingOf(size_t kernel, const std::string& property) const;

 private:
  std::vector<std::vector<FindingGroup>> groups_;  // [kernel]
  std::map<const ReportedFinding*, size_t> numbers_;
  std::map<std::pair<size_t, std::string>, const ReportedFinding*> firsts_;
  size_t findings_ = 0;
};

// What may still be spent on pictures and texts, so that a page of hundreds of findings opens at once.
struct Budget {
  size_t cells = 40000;   // of pictures: some 1.5 MB
  size_t bytes = 800000;  // of cases
};

// Ladders on top, then the properties by family; a column a kernel that was run.
void AddMatrix(pugi::xml_node main, const RunReport& report, const Anchors& anchors);

// One finding whole.
void AddFinding(pugi::xml_node parent, const ReportedFinding& reported, const std::string& anchor,
                Budget& budget);

// Who the kernel is, how far up the ladder it gets and why no further, what was counted, what was not
// tested and why, and all its results. `number` is its place in the report.
void AddKernel(pugi::xml_node main, const KernelReport& kernel, size_t number);

}  // namespace attest::html

#endif  // ATTEST_HARNESS_REPORT_HTML_PARTS_H_
