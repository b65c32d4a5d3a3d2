// Ops that passes and kernels look up by name in order to rewrite a pattern. Properties that many
// ops share are traits in their records instead.
#pragma once

#include "ops/core/spec.h"

namespace flow::ops {

inline const OpSpec* const kAdd = find_spec("add");
inline const OpSpec* const kAttention = find_spec("scaled_dot_product_attention");
inline const OpSpec* const kAttentionGrad = find_spec("scaled_dot_product_attention_grad");
inline const OpSpec* const kBatchNorm = find_spec("batch_norm");
inline const OpSpec* const kCast = find_spec("cast");
inline const OpSpec* const kConvolution = find_spec("convolution");
inline const OpSpec* const kConvolutionGradData = find_spec("convolution_grad_data");
inline const OpSpec* const kDivide = find_spec("divide");
inline const OpSpec* const kFill = find_spec("fill");
inline const OpSpec* const kFlip = find_spec("flip");
inline const OpSpec* const kGather = find_spec("gather");
inline const OpSpec* const kGruSteps = find_spec("gru_steps");
inline const OpSpec* const kGruStepsGrad = find_spec("gru_steps_grad");
inline const OpSpec* const kLstmSteps = find_spec("lstm_steps");
inline const OpSpec* const kLstmStepsGrad = find_spec("lstm_steps_grad");
inline const OpSpec* const kMatmul = find_spec("matmul");
inline const OpSpec* const kMaxPool2d = find_spec("max_pool2d");
inline const OpSpec* const kMaxPool2dGrad = find_spec("max_pool2d_grad");
inline const OpSpec* const kMultiply = find_spec("multiply");
inline const OpSpec* const kReduceSum = find_spec("reduce_sum");
inline const OpSpec* const kReshape = find_spec("reshape");
inline const OpSpec* const kRnnSteps = find_spec("rnn_steps");
inline const OpSpec* const kRnnStepsGrad = find_spec("rnn_steps_grad");
inline const OpSpec* const kShardRows = find_spec("shard_rows");
inline const OpSpec* const kSliceGrad = find_spec("slice_grad");
inline const OpSpec* const kVariable = find_spec("variable");

}  // namespace flow::ops
