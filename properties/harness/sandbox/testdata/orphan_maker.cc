// Opens a session on argv[1], prints a line and waits to be killed while the kernel is computing.
#include <unistd.h>

#include <cstdio>

#include "properties/harness/sandbox/session.h"

int main(int argc, char** argv) {
  if (argc != 2) return 1;
  const auto spec = attest::ResolveKernel(argv[1]);
  if (!spec) return 2;
  const auto session = attest::KernelSession::Open(*spec, {std::chrono::milliseconds{60000}});
  if (!session) return 3;
  attest::Call call;
  call.tensors.push_back({64, attest::DType::kF32, {1}, {1}, true, std::vector<std::byte>(4)});
  (*session)->Run({&call, 1});
  return 0;
}
