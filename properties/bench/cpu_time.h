// CPU time, for figures that a busy machine should not spoil. Callers: the tables of attest_bench.
#ifndef ATTEST_BENCH_CPU_TIME_H_
#define ATTEST_BENCH_CPU_TIME_H_

namespace attest {

// Seconds that this thread has had.
double ThreadCpuSeconds();
// Seconds that this process and all that live below it have had.
double CpuSecondsWithChildren();

}  // namespace attest

#endif  // ATTEST_BENCH_CPU_TIME_H_
