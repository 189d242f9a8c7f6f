// How often a test of drawn problems repeats. In ci/test few cases are enough to see what breaks for most problems;
// what breaks for one in a thousand is looked for by night, where ci/overnight sets ATTEST_TEST_REPETITIONS.
#ifndef ATTEST_ATTENTION_TESTING_REPETITIONS_H_
#define ATTEST_ATTENTION_TESTING_REPETITIONS_H_

#include <cstdlib>

namespace attest {

// `usual`, times ATTEST_TEST_REPETITIONS where the environment names a whole number above 0.
inline int Repetitions(int usual) {
  const char* text = std::getenv("ATTEST_TEST_REPETITIONS");
  const int factor = text == nullptr ? 1 : std::atoi(text);
  return factor > 0 ? usual * factor : usual;
}

}  // namespace attest

#endif  // ATTEST_ATTENTION_TESTING_REPETITIONS_H_
