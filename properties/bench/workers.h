// The table of `attest_bench workers`: what a call costs on its way through each worker, with a kernel
// that computes nothing. Caller: main.cc.
#ifndef ATTEST_BENCH_WORKERS_H_
#define ATTEST_BENCH_WORKERS_H_

namespace attest {

struct WorkersOptions {
  double seconds = 1;  // measured for each worker
};

// Prints calls a second through the worker of each language, this process and the worker on one core.
// Neither reference nor judge take part. False where a worker fails; one whose interpreter is not there
// is named as such and does not fail.
bool PrintWorkers(const WorkersOptions& options);

}  // namespace attest

#endif  // ATTEST_BENCH_WORKERS_H_
