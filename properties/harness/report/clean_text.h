// Text that a kernel may have had a hand in (its name, its messages), made fit for a page: the HTML
// and Markdown writers of this folder pass everything through here. Escaping is theirs.
#ifndef ATTEST_HARNESS_REPORT_CLEAN_TEXT_H_
#define ATTEST_HARNESS_REPORT_CLEAN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace attest {

// Valid UTF-8. Bytes that are none, control characters other than '\n' and '\t', and characters that
// turn the direction of writing round (with which a text can look like another) become U+FFFD. What
// is longer than `longest` bytes ends in an ellipsis.
std::string CleanText(std::string_view text, size_t longest = 20000);

}  // namespace attest

#endif  // ATTEST_HARNESS_REPORT_CLEAN_TEXT_H_
