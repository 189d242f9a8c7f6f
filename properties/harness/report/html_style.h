// The style sheet of the report page. Private to the HTML writer.
#ifndef ATTEST_HARNESS_REPORT_HTML_STYLE_H_
#define ATTEST_HARNESS_REPORT_HTML_STYLE_H_

#include <string_view>

namespace attest::html {

extern const std::string_view kStyle;

}  // namespace attest::html

#endif  // ATTEST_HARNESS_REPORT_HTML_STYLE_H_
