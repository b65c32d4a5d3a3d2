// The loops of batch normalization over the elements of a piece, compiled for the instruction sets
// of the CPU.
#pragma once

#include "runtime/cpu/loops/channels.h"

namespace flow::cpu {

/// The constants of each channel, as vectors of C elements. The result is (x - center) factor +
/// term; `mean` and `slope` are used only by the gradient.
struct PerChannel {
  float *center, *factor, *term, *mean, *slope;
};

/// Compute the mean of each channel of a piece, and the sum of squared differences from it. The
/// first function is for pieces whose channels are innermost, the second for pieces with runs of
/// elements in each channel.
void moments_of_rows(const ChannelPiece& p, const float* x, double* mean, double* squares);
void moments_of_runs(const ChannelPiece& p, const float* x, double* mean, double* squares);

/// Computes y = (x - center) factor + term, or its relu. y may alias x.
void normalize(const ChannelPiece& p, const PerChannel& k, bool rectify, const float* x, float* y);

/// Computes the sums of dy, and of dy times the difference of x from its center. With `rectified`,
/// it uses only the dy of elements that a relu after the result passed on.
void gradients_of(const ChannelPiece& p, const PerChannel& k, bool rectified, const float* dy,
                  const float* x, double* sums, double* products);

/// Computes dx = factor (dy - mean - (x - center) slope). dx may alias dy.
void differentiate(const ChannelPiece& p, const PerChannel& k, bool rectified, const float* dy,
                   const float* x, float* dx);

}  // namespace flow::cpu
