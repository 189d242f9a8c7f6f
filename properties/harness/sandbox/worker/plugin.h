// A kernel plug-in in this process: loads the shared library, checks its table and makes an
// instance. A model's library (attest/model.h) is loaded as a kernel whose calls are a model's.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_PLUGIN_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_PLUGIN_H_

#include <string>
#include <utility>
#include <vector>

#include <attest/kernel.h>
#include <tl/expected.hpp>

namespace attest {

struct Plugin {
  const attest_kernel_table* table = nullptr;
  void* kernel = nullptr;  // the instance; may be null
  std::string contract;
};

using StringPairs = std::vector<std::pair<std::string, std::string>>;

// The error is one line that begins with the path: not loadable, no attest_kernel, another ABI
// version, an incomplete table, create refused, no contract. The library is never unloaded.
// Exceptions out of the plug-in pass through.
tl::expected<Plugin, std::string> LoadPlugin(const std::string& path, const StringPairs& options,
                                             int threads);

// Calls a table's create; the error says what it answered.
tl::expected<void*, std::string> CreateInstance(attest_status (*create)(const attest_create_info*,
                                                                        void**),
                                                const StringPairs& options, int threads);

// Makes an instance of a kernel whose table is at hand; errors as above, without the path.
tl::expected<Plugin, std::string> MakePlugin(const attest_kernel_table* table,
                                             const StringPairs& options, int threads);

// A status as the number that the plug-in returned, which C++ may not look at as an attest_status
// when it is none of its values.
int NumberOf(const attest_status& status);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_PLUGIN_H_
