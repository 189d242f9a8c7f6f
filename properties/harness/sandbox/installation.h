// Where attest's own files lie: beside the running program, unless the environment says otherwise.
#ifndef ATTEST_HARNESS_SANDBOX_INSTALLATION_H_
#define ATTEST_HARNESS_SANDBOX_INSTALLATION_H_

#include <filesystem>

namespace attest {

// The folder of installed plug-ins: $ATTEST_KERNELS_DIR, else ../kernels from the program.
std::filesystem::path KernelFolder();

// The worker program: $ATTEST_WORKER, else attest_worker beside the program.
std::filesystem::path WorkerProgram();

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_INSTALLATION_H_
