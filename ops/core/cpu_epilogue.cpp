// Vectorized epilogues of one row.
#include "ops/core/cpu_epilogue.h"

#include <cstring>

#include "ops/core/spec.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu {
namespace {

FLOW_VECTORIZED void add_bias(const float* in, const float* bias, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[i] + bias[i];
}

FLOW_VECTORIZED void add_bias_relu(const float* in, const float* bias, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float sum = in[i] + bias[i];
    out[i] = sum <= 0 ? 0 : sum;
  }
}

FLOW_VECTORIZED void relu_row(const float* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = in[i] <= 0 ? 0 : in[i];
}

}  // namespace

Epilogue Epilogue::of(const Request& request, int axis) {
  Epilogue epilogue;
  for (const plan::EpilogueOp& fused : request.step.epilogue) {
    const ops::Epilogue next = fused.op->epilogue;
    if (next == ops::Epilogue::kBias && epilogue.fused == 0 &&
        fused.attributes.get<int64_t>("axis") == axis)
      epilogue.bias = true;
    else if (next == ops::Epilogue::kRelu && !epilogue.relu && !epilogue.low_precision)
      epilogue.relu = true;
    else if (next == ops::Epilogue::kCast && !epilogue.low_precision)
      epilogue.low_precision = true;
    else
      break;
    ++epilogue.fused;
  }
  return epilogue;
}

void Epilogue::finish(float* in, const float* bias_row, std::byte* out, int64_t n) const {
  float* to = low_precision ? in : reinterpret_cast<float*>(out);
  if (bias && relu)
    add_bias_relu(in, bias_row, to, n);
  else if (bias)
    add_bias(in, bias_row, to, n);
  else if (relu)
    relu_row(in, to, n);
  else if (in != to)
    std::memcpy(to, in, static_cast<size_t>(n) * sizeof(float));
  if (low_precision) round_to_bfloat16(to, reinterpret_cast<uint16_t*>(out), n);
}

}  // namespace flow::cpu
