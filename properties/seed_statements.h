// The statements about attention and Transformers that the suite turns into tests, for the table at the end of
// properties/README.md: what people say, in our words, and what here would fail if it were false. Caller:
// attest_property_readme.
#ifndef ATTEST_PROPERTIES_SEED_STATEMENTS_H_
#define ATTEST_PROPERTIES_SEED_STATEMENTS_H_

#include <span>
#include <string_view>

namespace attest {

struct SeedStatement {
  std::string_view subject;
  std::string_view statement;
  // The id of a property of kernels or of models ("no_future.later_tokens_do_not_matter"), or a GoogleTest
  // ("ClaimsTest.OrderOfHeads..."), several with a space between.
  std::string_view witnesses;
};

std::span<const SeedStatement> SeedStatements();

}  // namespace attest

#endif  // ATTEST_PROPERTIES_SEED_STATEMENTS_H_
