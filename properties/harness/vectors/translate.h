// From ONNX's conventions to a Case: 3-D tensors become 4-D, past keys and values are put before the
// new ones, the diagonal is placed by the standard's rule, a short mask is padded. The only place that knows these conventions of stored
// vectors.
#ifndef ATTEST_HARNESS_VECTORS_TRANSLATE_H_
#define ATTEST_HARNESS_VECTORS_TRANSLATE_H_

#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "properties/harness/vectors/attention_node.h"
#include "properties/harness/vectors/tensor_file.h"
#include "properties/harness/vectors/vectors.h"

namespace attest {

// Fills in `vector` (its name stays) from a node and the graph's tensors in order; `inputs` and
// `outputs` have an entry for every position that the node names. What a Case cannot hold becomes
// an `unsupported` line. The error is one line: tensors that contradict each other.
tl::expected<void, std::string> Translate(const AttentionNode& node,
                                          const std::vector<OnnxTensor>& inputs,
                                          const std::vector<OnnxTensor>& outputs,
                                          VectorCase* vector);

}  // namespace attest

#endif  // ATTEST_HARNESS_VECTORS_TRANSLATE_H_
