// A model plug-in behind a kernel's table, so that the worker serves both alike: a call's operation chooses
// the model's function, and a whole generation, from the opening of its cache to its end, is one call.
#ifndef ATTEST_HARNESS_SANDBOX_WORKER_MODEL_PLUGIN_H_
#define ATTEST_HARNESS_SANDBOX_WORKER_MODEL_PLUGIN_H_

#include <string>

#include <attest/model.h>
#include <tl/expected.hpp>

#include "properties/harness/sandbox/worker/plugin.h"

namespace attest {

// As MakePlugin, of a model. The instance is the plugin's for the life of the process.
tl::expected<Plugin, std::string> MakeModelPlugin(const attest_model_table* table,
                                                  const StringPairs& options, int threads);

}  // namespace attest

#endif  // ATTEST_HARNESS_SANDBOX_WORKER_MODEL_PLUGIN_H_
