#include "properties/harness/cli/look_at_findings.h"

#include "properties/harness/cli/interrupt.h"
#include "properties/harness/report/case_view.h"
#include "properties/harness/runner/run_case.h"

namespace attest {

void LookAtFindings(OpenedKernel& opened, KernelReport& kernel) {
  for (ReportedFinding& reported : kernel.findings) {
    if (Interrupted()) return;
    const Finding& finding = reported.finding;
    const Property* property = FindProperty(finding.signature.property);
    if (property == nullptr) continue;
    KernelSession* session = SessionAtFault(*property, finding.smallest, opened.contract,
                                            finding.verdict, *opened.session);
    if (session == nullptr) continue;
    if (!finding.before.empty()) session->Refresh();
    MakeCalls(finding.before, opened.contract, *session);
    reported.view = LookAt(finding.derived ? *finding.derived : finding.smallest, finding.verdict,
                           opened.contract, *session);
  }
}

}  // namespace attest
