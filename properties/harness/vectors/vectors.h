// Reads the ONNX standard's backend tests of the Attention operator as cases: folders that hold a
// model.onnx of one node and test_data_set_N/{input,output}_M.pb. `attest vectors DIR KERNEL` runs
// them on a kernel, and a test holds the reference against them. What a vector asks for beyond a
// Problem is named, never dropped.
#ifndef ATTEST_HARNESS_VECTORS_VECTORS_H_
#define ATTEST_HARNESS_VECTORS_VECTORS_H_

#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "impl/attention/array.h"
#include "properties/harness/case/case.h"

namespace attest {

// One test data set. The expected values are the standard's, its errata of 2026-06 included: rows
// without a visible key are zero, the softcap comes before the mask. Tolerances are the caller's
// affair.
struct VectorCase {
  std::string name;                      // the folder's name; NAME/test_data_set_N where N > 0
  std::vector<std::string> unsupported;  // why it is no case of ours; empty = the rest is filled in
  // Valid, every tensor a literal; past keys and values as Storage::past; want_weights and
  // want_scores as stored.
  Case c;
  Array out;                   // [batch, q_heads, q_len, value_dim]
  Array weights;               // [batch, q_heads, q_len, kv_len]; empty where not stored
  Array scores;                // likewise
  Array present_k, present_v;  // [batch, kv_heads, kv_len, dim]; likewise
};

// Reads every test folder in `dir`, or `dir` itself where it is one, sorted by name. Tests of other
// operators come back as unsupported. The error is one line that names the file: an unreadable
// folder, no test folder in it, a file that is missing, malformed or larger than 256 MiB, sizes
// that contradict the data. Nothing in the files is trusted.
tl::expected<std::vector<VectorCase>, std::string> ReadVectors(const std::string& dir);

}  // namespace attest

#endif  // ATTEST_HARNESS_VECTORS_VECTORS_H_
