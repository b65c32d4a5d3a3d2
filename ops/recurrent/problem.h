// What the steps of recurrent layers and their gradients read of a step of the plan, and the gates
// of one unit: the same bits on every device, but for what libraries compute.
#pragma once

#include "ops/core/attributes.h"
#include "runtime/base/array.h"
#include "runtime/base/host_device.h"
#include "runtime/base/vector_math.h"

namespace flow {

/// Which row does what in which step. Arrays of all steps are (N, T, ...).
struct RecurrentSteps {
  int64_t rows, steps, units;
  bool reverse;

  /// `all`: of an array of all steps; `weight`: of the recurrent weight (G H, H).
  RecurrentSteps(const ops::Attributes& attributes, const Shape& all, const Shape& weight)
      : rows(all[0]), steps(all[1]), units(weight[1]), reverse(attributes.get<bool>("reverse")) {}

  /// The steps of a row of that length. One out of range stops the run.
  FLOW_HOST_DEVICE int64_t steps_of_length(int64_t length) const {
    return length < 0 ? 0 : length < steps ? length : steps;
  }
  /// The number in (N, T) of what a row of that length reads and makes in a step before its length.
  FLOW_HOST_DEVICE int64_t place(int64_t row, int64_t step, int64_t length) const {
    return row * steps + (reverse ? length - 1 - step : step);
  }
};

namespace gates {

// One unit in one step. Its gates lie `nx`, `nw`, ... apart. x: what the input makes of them, w:
// what the state makes.

// What a gate passes back to its sum, from `passed` to its result y.
template <typename T>
FLOW_INLINE T sigmoid_grad(T passed, T y) {
  return passed * y * (T(1) - y);
}
template <typename T>
FLOW_INLINE T tanh_grad(T passed, T y) {
  return passed * (T(1) - y * y);
}

/// w: then the gates i, f, g, o.
template <typename T>
FLOW_INLINE void lstm(const T* x, int64_t nx, T* w, int64_t nw, T& c, T& h) {
  w[0] = math::sigmoid(x[0] + w[0]);
  w[nw] = math::sigmoid(x[nx] + w[nw]);
  w[2 * nw] = math::tanh(x[2 * nx] + w[2 * nw]);
  w[3 * nw] = math::sigmoid(x[3 * nx] + w[3 * nw]);
  c = w[nw] * c + w[0] * w[2 * nw];
  h = w[3 * nw] * math::tanh(c);
}

/// dh, dc: of the states c and h that the step made; then dc of the one before it. d: of the gates.
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

/// w: of r and z; then these gates. Returns r h.
template <typename T>
FLOW_INLINE T gru_reset(const T* x, int64_t nx, const T* bias, int64_t nb, T* w, int64_t nw, T h) {
  w[0] = math::sigmoid(x[0] + (w[0] + bias[0]));
  w[nw] = math::sigmoid(x[nx] + (w[nw] + bias[nb]));
  return w[0] * h;
}
/// w: r, z and W_n (r h); then the new gate instead of the latter.
template <typename T>
FLOW_INLINE void gru_update(const T* x, int64_t nx, const T* bias, int64_t nb, T* w, int64_t nw,
                            T& h) {
  const T z = w[nw], next = math::tanh(x[2 * nx] + (w[2 * nw] + bias[2 * nb]));
  h = (T(1) - z) * next + z * h;
  w[2 * nw] = next;
}
/// Where the reset gate comes behind the product. w: of r, z, n; then r, z, n, W_n h + b_n.
template <typename T>
FLOW_INLINE void gru(const T* x, int64_t nx, const T* bias, int64_t nb, T* w, int64_t nw, T& h) {
  gru_reset(x, nx, bias, nb, w, nw, h);
  const T z = w[nw], q = w[2 * nw] + bias[2 * nb], next = math::tanh(x[2 * nx] + w[0] * q);
  h = (T(1) - z) * next + z * h;
  w[2 * nw] = next;
  w[3 * nw] = q;
}

/// d: of z and n. Returns dh of the state before past the gates.
template <typename T>
FLOW_INLINE T gru_update_grad(const T* gate, int64_t n, T h_before, T dh, T* d, int64_t nd) {
  const T z = gate[n], next = gate[2 * n];
  d[nd] = sigmoid_grad(dh * (h_before - next), z);
  d[2 * nd] = tanh_grad(dh * (T(1) - z), next);
  return dh * z;
}
/// Where the reset gate comes behind the product. d: of what the input makes of the gates; w: of
/// what the state makes.
template <typename T>
FLOW_INLINE T gru_grad(const T* gate, int64_t n, T h_before, T dh, T* d, T* w, int64_t nd) {
  const T past = gru_update_grad(gate, n, h_before, dh, d, nd), r = gate[0];
  d[0] = w[0] = sigmoid_grad(d[2 * nd] * gate[3 * n], r);
  w[nd] = d[nd];
  w[2 * nd] = d[2 * nd] * r;
  return past;
}

/// The state of a plain layer. NaN stays NaN.
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
