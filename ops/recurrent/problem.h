// The sizes and row order that the steps of recurrent layers and their gradients read from a step
// of the plan, and the gates of one unit. Results are bit-identical on every device, except for
// products computed by libraries.
#pragma once

#include "ops/core/attributes.h"
#include "runtime/base/array.h"
#include "runtime/base/host_device.h"
#include "runtime/base/vector_math.h"

namespace flow {

/// The order in which rows take their steps. Arrays of all steps are (N, T, ...).
struct RecurrentSteps {
  int64_t rows, steps, units;
  bool reverse;

  /// `all` is the shape of an array of all steps, and `weight` is the shape of the recurrent weight
  /// (G H, H).
  RecurrentSteps(const ops::Attributes& attributes, const Shape& all, const Shape& weight)
      : rows(all[0]), steps(all[1]), units(weight[1]), reverse(attributes.get<bool>("reverse")) {}

  /// Returns the number of steps of a row with this length. A length that is out of range stops the
  /// run.
  FLOW_HOST_DEVICE int64_t steps_of_length(int64_t length) const {
    return length < 0 ? 0 : length < steps ? length : steps;
  }
  /// Returns the index in (N, T) that a row of this length reads and writes in a step. REQUIRES:
  /// step < length.
  FLOW_HOST_DEVICE int64_t place(int64_t row, int64_t step, int64_t length) const {
    return row * steps + (reverse ? length - 1 - step : step);
  }
};

namespace gates {

// The functions below compute one unit in one step. The gates of x are `nx` apart, those of w are
// `nw` apart, and so on. x is the input's contribution to the gates, and w is the state's
// contribution.

// These functions return the gradient of the sum inside a gate from the gradient `passed` of the
// gate's result y.
template <typename T>
FLOW_INLINE T sigmoid_grad(T passed, T y) {
  return passed * y * (T(1) - y);
}
template <typename T>
FLOW_INLINE T tanh_grad(T passed, T y) {
  return passed * (T(1) - y * y);
}

/// Replaces w by the gates i, f, g and o, and updates c and h.
template <typename T>
FLOW_INLINE void lstm(const T* x, int64_t nx, T* w, int64_t nw, T& c, T& h) {
  w[0] = math::sigmoid(x[0] + w[0]);
  w[nw] = math::sigmoid(x[nx] + w[nw]);
  w[2 * nw] = math::tanh(x[2 * nx] + w[2 * nw]);
  w[3 * nw] = math::sigmoid(x[3 * nx] + w[3 * nw]);
  c = w[nw] * c + w[0] * w[2 * nw];
  h = w[3 * nw] * math::tanh(c);
}

/// dh and dc are the gradients of the states h and c that the step computed; dc is replaced by the
/// gradient of the previous c. d receives the gradients of the gates.
template <typename T>
FLOW_INLINE void lstm_grad(const T* gate, int64_t n, T c, T c_before, T dh, T& dc, T* d,
                           int64_t nd) {
  const T i = gate[0], f = gate[n], g = gate[2 * n], o = gate[3 * n];
  const T t = math::tanh(c), cell = dc + tanh_grad(dh * o, t);
  dc = cell * f;
  d[0] = sigmoid_grad(cell * g, i);
  d[nd] = sigmoid_grad(cell * c_before, f);
  d[2 * nd] = tanh_grad(cell * i, g);
  d[3 * nd] = sigmoid_grad(dh * t, o);
}

/// Replaces the contributions to r and z in w by these gates. Returns r h.
template <typename T>
FLOW_INLINE T gru_reset(const T* x, int64_t nx, const T* bias, int64_t nb, T* w, int64_t nw, T h) {
  w[0] = math::sigmoid(x[0] + (w[0] + bias[0]));
  w[nw] = math::sigmoid(x[nx] + (w[nw] + bias[nb]));
  return w[0] * h;
}
/// w contains r, z and W_n (r h), which is replaced by the new gate. Updates h.
template <typename T>
FLOW_INLINE void gru_update(const T* x, int64_t nx, const T* bias, int64_t nb, T* w, int64_t nw,
                            T& h) {
  const T z = w[nw], next = math::tanh(x[2 * nx] + (w[2 * nw] + bias[2 * nb]));
  h = (T(1) - z) * next + z * h;
  w[2 * nw] = next;
}
/// Computes a step whose reset gate comes after the product. Replaces the contributions to r, z and
/// n in w by r, z, n and W_n h + b_n, and updates h.
template <typename T>
FLOW_INLINE void gru(const T* x, int64_t nx, const T* bias, int64_t nb, T* w, int64_t nw, T& h) {
  gru_reset(x, nx, bias, nb, w, nw, h);
  const T z = w[nw], q = w[2 * nw] + bias[2 * nb], next = math::tanh(x[2 * nx] + w[0] * q);
  h = (T(1) - z) * next + z * h;
  w[2 * nw] = next;
  w[3 * nw] = q;
}

/// Writes the gradients of z and n to d. Returns the part of the previous state's gradient that
/// bypasses the gates.
template <typename T>
FLOW_INLINE T gru_update_grad(const T* gate, int64_t n, T h_before, T dh, T* d, int64_t nd) {
  const T z = gate[n], next = gate[2 * n];
  d[nd] = sigmoid_grad(dh * (h_before - next), z);
  d[2 * nd] = tanh_grad(dh * (T(1) - z), next);
  return dh * z;
}
/// Computes the gradient of a step whose reset gate comes after the product. d receives the
/// gradients of the input's contribution to the gates, and w those of the state's contribution.
template <typename T>
FLOW_INLINE T gru_grad(const T* gate, int64_t n, T h_before, T dh, T* d, T* w, int64_t nd) {
  const T past = gru_update_grad(gate, n, h_before, dh, d, nd), r = gate[0];
  d[0] = w[0] = sigmoid_grad(d[2 * nd] * gate[3 * n], r);
  w[nd] = d[nd];
  w[2 * nd] = d[2 * nd] * r;
  return past;
}

/// Returns the state of a plain recurrent layer. NaN stays NaN.
template <bool kRelu, typename T>
FLOW_INLINE T rnn(T sum) {
  return !kRelu ? math::tanh(sum) : sum <= T(0) ? T(0) : sum;
}
template <bool kRelu, typename T>
FLOW_INLINE T rnn_grad(T passed, T h) {
  return !kRelu ? tanh_grad(passed, h) : h > T(0) ? passed : T(0);
}

}  // namespace gates
}  // namespace flow
