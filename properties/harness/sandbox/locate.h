// Where the parts of attest lie on disk: beside the running program, or where the environment says.
#ifndef ATTEST_HARNESS_SANDBOX_LOCATE_H_
#define ATTEST_HARNESS_SANDBOX_LOCATE_H_

#include <filesystem>
#include <string_view>

namespace attest {

// The folder of the running program; empty when /proc is not there.
std::filesystem::path ProgramFolder();

// The worker program: $ATTEST_WORKER, or attest_worker beside the running program.
std::filesystem::path WorkerProgram();

// The program that stands between the harness and each worker: attest_guard beside the running program.
std::filesystem::path GuardProgram();

// The worker scripts of other languages: $ATTEST_WORKERS_DIR, or ../workers from the running program.
std::filesystem::path WorkerScript(std::string_view name);

// The folder of installed plug-ins: $ATTEST_KERNELS_DIR, or ../kernels from the running program.
std::filesystem::path KernelFolder();

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_LOCATE_H_
