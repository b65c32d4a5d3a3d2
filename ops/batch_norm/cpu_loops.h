// The loops of batch normalization over a piece's elements, compiled for what the CPU has.
#pragma once

#include "runtime/cpu/loops/channels.h"

namespace flow::cpu {

/// What is applied to the elements of a channel, vectors of C: the result is (x - center) factor +
/// term; `mean` and `slope` are the gradient's.
struct PerChannel {
  float *center, *factor, *term, *mean, *slope;
};

/// Means of a piece's channels, and sums of squared distances from them. Channels are innermost, or
/// runs of elements are.
void moments_of_rows(const ChannelPiece& p, const float* x, double* mean, double* squares);
void moments_of_runs(const ChannelPiece& p, const float* x, double* mean, double* squares);

/// y = (x - center) factor + term, or relu of it. y may lie on x.
void normalize(const ChannelPiece& p, const PerChannel& k, bool rectify, const float* x, float* y);

/// Sums of dy, and of dy times x's distance from its center. `rectified`: of the dy that a relu of
/// the result has passed on.
void gradients_of(const ChannelPiece& p, const PerChannel& k, bool rectified, const float* dy,
                  const float* x, double* sums, double* products);

/// dx = factor (dy - mean - (x - center) slope). dx may lie on dy.
void differentiate(const ChannelPiece& p, const PerChannel& k, bool rectified, const float* dy,
                   const float* x, float* dx);

}  // namespace flow::cpu
