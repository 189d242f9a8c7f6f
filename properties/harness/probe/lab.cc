#include "properties/harness/probe/lab.h"

#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "attest/kernel.h"
#include "impl/attention/one_line.h"

namespace attest::probe {
namespace {

// Weights are at least 2^0 / (2^8 - 1) where a key is seen.
constexpr double kSeen = 1e-3;

constexpr int kHangsToGiveUp = 3;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();  // printed without a sign

Array ReadOutput(const CallTensor& tensor, const std::vector<std::byte>& storage) {
  Shape4 shape{1, 1, 1, 1}, strides{0, 0, 0, 0};
  std::copy(tensor.shape.begin(), tensor.shape.end(), shape.begin());
  std::copy(tensor.strides.begin(), tensor.strides.end(), strides.begin());
  Array array(shape);
  const auto size = static_cast<int64_t>(ByteSize(tensor.dtype));
  size_t flat = 0;
  for (int64_t a = 0; a < shape[0]; ++a)
    for (int64_t b = 0; b < shape[1]; ++b)
      for (int64_t c = 0; c < shape[2]; ++c)
        for (int64_t d = 0; d < shape[3]; ++d) {
          const int64_t at = a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
          array.values[flat++] = LoadElement(tensor.dtype, storage.data() + at * size);
        }
  return array;
}

}  // namespace

double Reading::Weight(int64_t b, int64_t h, int64_t i, int64_t j) const {
  return Output(ATTEST_ROLE_OUT).At(b, h, i, j);
}

Reading Lab::Run(const TinyCall& tiny) {
  Reading reading;
  if (hangs_ >= kHangsToGiveUp) {
    reading.why = "not run: the kernel hangs";
    return reading;
  }
  ++calls_;
  const Call call = tiny.Build();
  CallResult result = run_(call);
  if (result.fault || result.status == CallStatus::kFault) {
    reading.fault = result.fault;
    reading.why = OneLine(result.fault ? result.fault->detail : "no result came back");
    hangs_ += result.fault && result.fault->kind == FaultKind::kHang ? 1 : 0;
    return reading;
  }
  reading.why = OneLine(result.message);
  if (result.status != CallStatus::kOk) {
    reading.answer = Answer::kRefused;
    return reading;
  }
  const auto outputs =
      std::count_if(call.tensors.begin(), call.tensors.end(), std::mem_fn(&CallTensor::is_output));
  if (result.outputs.size() != static_cast<size_t>(outputs)) {
    reading.why = "outputs are missing";
    return reading;
  }
  reading.answer = Answer::kComputed;
  size_t n = 0;
  for (const CallTensor& tensor : call.tensors) {
    if (tensor.is_output) reading.outputs[tensor.role] = ReadOutput(tensor, result.outputs[n++]);
  }
  reading.bytes = std::move(result.outputs);
  return reading;
}

std::string RowText(const Reading& reading, int64_t b, int64_t h, int64_t i, int64_t keys) {
  std::string text;
  for (int64_t j = 0; j < keys; ++j) {
    const double weight = reading.Weight(b, h, i, j);
    text += fmt::format("{}{:.3g}", j == 0 ? "" : " ", std::isnan(weight) ? kNan : weight);
  }
  return "{" + text + "}";
}

bool Saw(const Reading& reading, int64_t b, int64_t h, int64_t i, int64_t key) {
  return !(reading.Weight(b, h, i, key) < kSeen);  // a NaN is no zero
}

std::string SeenText(const Reading& reading, int64_t b, int64_t h, int64_t i, int64_t keys) {
  std::string text;
  for (int64_t j = 0; j < keys; ++j) text += Saw(reading, b, h, i, j) ? '#' : '.';
  return text;
}

}  // namespace attest::probe
