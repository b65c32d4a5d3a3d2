// Device kernels for the gates of recurrent layers, with a thread for each unit of a row in one
// step.
#pragma once

#include "ops/recurrent/problem.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {

struct StepOrder : RecurrentSteps {
  Integers lengths{nullptr, DType::kInt32};  // no data if all rows have all steps

  explicit StepOrder(const RecurrentSteps& of) : RecurrentSteps(of) {}

  __device__ int64_t length(int64_t row) const {
    return lengths.data ? steps_of_length(lengths[row]) : steps;
  }
};

/// One unit of a row in one step.
struct UnitStep {
  __device__ UnitStep(const StepOrder& order, int64_t i, int64_t step_number)
      : row(i / order.units), unit(i % order.units), step(step_number) {
    const int64_t length = order.length(row);
    active = step < length;
    place = active ? order.place(row, step, length) : row * order.steps + step;
    before = order.place(row, step - 1, length);
  }

  int64_t row, unit, step;
  bool active;     // if false, the place is after the row's last step
  int64_t place;   // the index in (N, T)
  int64_t before;  // the place of the previous step, if there is one
};

/// Writes element j of entry `at` of an array, which is null if the plan omits it.
template <typename T>
__device__ void store(T* all, int64_t at, int64_t width, int64_t j, T value) {
  if (all) all[at * width + j] = value;
}

/// Writes the first kCount gates, which are n values apart.
template <int kCount, typename T>
__device__ void store_gates(T* all, int64_t at, int64_t width, int64_t n, int64_t j,
                            const T* gate) {
  for (int64_t k = 0; k < kCount; ++k) store(all, at, width, k * n + j, gate[k]);
}

/// The arrays of one step of an LSTM. h and c are the states (N, H); w is the states' contribution
/// to the gates, (N, 4 H).
template <typename T>
struct LstmStep {
  const T *x, *w;
  T *h, *c;
  T *out, *gates, *cells;
};

template <typename T>
__global__ void lstm_step(StepOrder order, int64_t step, LstmStep<T> of) {
  const int64_t n = order.units;
  for (int64_t i = first_index(); i < order.rows * n; i += index_step()) {
    const UnitStep at(order, i, step);
    const int64_t j = at.unit;
    T gate[4] = {}, h = 0, c = 0;
    if (at.active) {
      const T* w = of.w + at.row * 4 * n + j;
      for (int k = 0; k < 4; ++k) gate[k] = w[k * n];
      c = of.c[i];
      gates::lstm(of.x + at.place * 4 * n + j, n, gate, 1, c, h);
      of.c[i] = c;
      of.h[i] = h;
    }
    store(of.out, at.place, n, j, h);
    store(of.cells, at.place, n, j, c);
    store_gates<4>(of.gates, at.place, 4 * n, n, j, gate);
  }
}

/// The arrays of one step of an LSTM's gradient. dh is the gradient of each row's last state. dc is
/// the gradient of the cell state that the step computed, and is replaced by that of the previous
/// cell state. d is the gradient of the gates, (N, 4 H), and 0 for rows without the step. back is
/// the product that the next step computed, which is the gradient of the states of its rows.
template <typename T>
struct LstmStepGrad {
  const T *dy, *dh, *h0, *c0, *out, *gates, *cells, *back;
  T *dc, *d;
  T *dgates, *previous;
};

/// Returns the gradient of the state that a step computed: the row's dh if the step is the row's
/// last one, and otherwise the product of the next step.
template <typename T>
__device__ T state_grad(const StepOrder& order, const UnitStep& at, int64_t i, const T* back,
                        const T* dh) {
  return at.step + 1 < order.length(at.row) ? back[i] : dh[i];
}

template <typename T>
__global__ void lstm_step_grad(StepOrder order, int64_t step, LstmStepGrad<T> of) {
  const int64_t n = order.units;
  for (int64_t i = first_index(); i < order.rows * n; i += index_step()) {
    const UnitStep at(order, i, step);
    const int64_t j = at.unit;
    T d[4] = {}, previous = 0;
    if (at.active) {
      const T c_before = step == 0 ? of.c0[i] : of.cells[at.before * n + j];
      const T total = state_grad(order, at, i, of.back, of.dh) + of.dy[at.place * n + j];
      gates::lstm_grad(of.gates + at.place * 4 * n + j, n, of.cells[at.place * n + j], c_before,
                       total, of.dc[i], d, 1);
      previous = step == 0 ? of.h0[i] : of.out[at.before * n + j];
    }
    store_gates<4>(of.d, at.row, 4 * n, n, j, d);
    store_gates<4>(of.dgates, at.place, 4 * n, n, j, d);
    store(of.previous, at.place, n, j, previous);
  }
}

/// The arrays of one step of a GRU. w is the states' contribution to r, z and n, (N, 3 H), or only
/// to r and z, (N, 2 H), if the reset gate comes before the product; rh is r h.
template <typename T>
struct GruStep {
  const T *x, *bias;
  T *w, *h, *rh;
  T *out, *gates;
  bool linear;  // the reset gate comes after the product
};

/// Computes r and z in w, and r h, for layers whose reset gate comes before the product.
template <typename T>
__global__ void gru_reset(StepOrder order, int64_t step, GruStep<T> of) {
  const int64_t n = order.units;
  for (int64_t i = first_index(); i < order.rows * n; i += index_step()) {
    const UnitStep at(order, i, step);
    const int64_t j = at.unit;
    T rh = 0;
    if (at.active) {
      // The product contains only r and z.
      rh = gates::gru_reset(of.x + at.place * 3 * n + j, n, of.bias + j, n,
                            of.w + at.row * 2 * n + j, n, of.h[i]);
    }
    of.rh[i] = rh;
  }
}

/// Computes the new states. `next` is W_n (r h) if the reset gate comes before the product, and
/// otherwise unused.
template <typename T>
__global__ void gru_step(StepOrder order, int64_t step, GruStep<T> of, const T* next) {
  const int64_t n = order.units, saved = of.linear ? 4 : 3;
  for (int64_t i = first_index(); i < order.rows * n; i += index_step()) {
    const UnitStep at(order, i, step);
    const int64_t j = at.unit;
    T gate[4] = {}, h = 0;
    if (at.active) {
      const int64_t width = of.linear ? 3 : 2;
      const T *x = of.x + at.place * 3 * n + j, *w = of.w + at.row * width * n + j;
      gate[0] = w[0];
      gate[1] = w[n];
      gate[2] = of.linear ? w[2 * n] : next[i];
      h = of.h[i];
      if (of.linear)
        gates::gru(x, n, of.bias + j, n, gate, 1, h);
      else
        gates::gru_update(x, n, of.bias + j, n, gate, 1, h);
      of.h[i] = h;
    }
    store(of.out, at.place, n, j, h);
    store_gates<3>(of.gates, at.place, saved * n, n, j, gate);
    if (of.linear) store(of.gates, at.place, saved * n, 3 * n + j, gate[3]);
  }
}

/// The arrays of one step of a GRU's gradient. dh is the gradient of the state that the step
/// computed, and is replaced by the part of it that bypasses the gates. d is the gradient of the
/// states' contribution to the gates; its product with the weight is `back`.
template <typename T>
struct GruStepGrad {
  const T *dy, *h0, *out, *gates, *back;
  T *dh, *d;
  T *dgates, *previous, *hidden;
  bool linear;
};

template <typename T>
__global__ void gru_step_grad(StepOrder order, int64_t step, GruStepGrad<T> of, T* dn) {
  const int64_t n = order.units, saved = of.linear ? 4 : 3;
  for (int64_t i = first_index(); i < order.rows * n; i += index_step()) {
    const UnitStep at(order, i, step);
    const int64_t j = at.unit;
    T x[3] = {}, w[3] = {}, before = 0;
    if (at.active) {
      const T* gate = of.gates + at.place * saved * n + j;
      before = step == 0 ? of.h0[i] : of.out[at.before * n + j];
      // The sum of the gradients that bypassed the gates of the next step and that went through
      // them.
      const bool last = step + 1 >= order.length(at.row);
      const T total = of.dh[i] + (last ? T(0) : of.back[i]) + of.dy[at.place * n + j];
      of.dh[i] = of.linear ? gates::gru_grad(gate, n, before, total, x, w, 1)
                           : gates::gru_update_grad(gate, n, before, total, x, 1);
    }
    store(of.previous, at.place, n, j, before);
    if (of.linear) {
      for (int64_t k = 0; k < 3; ++k) {
        of.d[at.row * 3 * n + k * n + j] = w[k];
        store(of.dgates, at.place, 3 * n, k * n + j, x[k]);
        store(of.hidden, at.place, 3 * n, k * n + j, w[k]);
      }
    } else {
      dn[i] = x[2];
      of.d[at.row * 2 * n + n + j] = x[1];
      for (int64_t k = 1; k < 3; ++k) store(of.dgates, at.place, 3 * n, k * n + j, x[k]);
    }
  }
}

/// Computes the gradient of r from the gradient `u` of r h, for layers whose reset gate comes
/// before the product.
template <typename T>
__global__ void gru_reset_grad(StepOrder order, int64_t step, GruStepGrad<T> of, const T* u) {
  const int64_t n = order.units;
  for (int64_t i = first_index(); i < order.rows * n; i += index_step()) {
    const UnitStep at(order, i, step);
    const int64_t j = at.unit;
    T d = 0, rh = 0;
    if (at.active) {
      const T r = of.gates[at.place * 3 * n + j];
      const T before = step == 0 ? of.h0[i] : of.out[at.before * n + j];
      d = gates::sigmoid_grad(u[i] * before, r);
      rh = r * before;
      of.dh[i] += u[i] * r;
    }
    of.d[at.row * 2 * n + j] = d;
    store(of.dgates, at.place, 3 * n, j, d);
    store(of.hidden, at.place, n, j, rh);
  }
}

template <typename T>
struct RnnStep {
  const T *x, *w;
  T *h, *out;
  bool relu;
};

template <typename T>
__global__ void rnn_step(StepOrder order, int64_t step, RnnStep<T> of) {
  const int64_t n = order.units;
  for (int64_t i = first_index(); i < order.rows * n; i += index_step()) {
    const UnitStep at(order, i, step);
    T h = 0;
    if (at.active) {
      const T sum = of.x[at.place * n + at.unit] + of.w[i];
      h = of.relu ? gates::rnn<true>(sum) : gates::rnn<false>(sum);
      of.h[i] = h;
    }
    store(of.out, at.place, n, at.unit, h);
  }
}

template <typename T>
struct RnnStepGrad {
  const T *dy, *dh, *h0, *out, *back;
  T *d, *dgates, *previous;
  bool relu;
};

template <typename T>
__global__ void rnn_step_grad(StepOrder order, int64_t step, RnnStepGrad<T> of) {
  const int64_t n = order.units;
  for (int64_t i = first_index(); i < order.rows * n; i += index_step()) {
    const UnitStep at(order, i, step);
    T d = 0, before = 0;
    if (at.active) {
      const int64_t own = at.place * n + at.unit;
      const T y = of.out[own], total = state_grad(order, at, i, of.back, of.dh) + of.dy[own];
      d = of.relu ? gates::rnn_grad<true>(total, y) : gates::rnn_grad<false>(total, y);
      before = step == 0 ? of.h0[i] : of.out[at.before * n + at.unit];
    }
    of.d[i] = d;
    store(of.dgates, at.place, n, at.unit, d);
    store(of.previous, at.place, n, at.unit, before);
  }
}

/// Computes the gradient of the initial state. A row without steps keeps its dh; for other rows,
/// dh0 is the gradient that went through the gates of the first step plus, if `past` is set, the
/// gradient that bypassed them.
template <typename T>
__global__ void first_state_grad(StepOrder order, const T* dh, const T* back, bool past, T* dh0) {
  for (int64_t i = first_index(); i < order.rows * order.units; i += index_step()) {
    const bool stepped = order.length(i / order.units) > 0;
    dh0[i] = !stepped ? dh[i] : past ? dh[i] + back[i] : back[i];
  }
}

}  // namespace flow::cuda
