// The gates of recurrent layers on the device, a thread for each unit of a row in one step.
#pragma once

#include "ops/recurrent/problem.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {

struct StepOrder : RecurrentSteps {
  Integers lengths{nullptr, DType::kInt32};  // without data: all rows have all steps

  explicit StepOrder(const RecurrentSteps& of) : RecurrentSteps(of) {}

  __device__ int64_t length(int64_t row) const {
    return lengths.data ? steps_of_length(lengths[row]) : steps;
  }
};

/// A unit of a row in a step.
struct UnitStep {
  __device__ UnitStep(const StepOrder& order, int64_t i, int64_t step_number)
      : row(i / order.units), unit(i % order.units), step(step_number) {
    const int64_t length = order.length(row);
    active = step < length;
    place = active ? order.place(row, step, length) : row * order.steps + step;
    before = order.place(row, step - 1, length);
  }

  int64_t row, unit, step;
  bool active;     // else its place lies behind the row's last
  int64_t place;   // in (N, T)
  int64_t before;  // the place of the step before, where there is one
};

/// Element j of entry `at` of an array that may be left out; gates lie n apart.
template <typename T>
__device__ void store(T* all, int64_t at, int64_t width, int64_t j, T value) {
  if (all) all[at * width + j] = value;
}

/// Gate k of n values apart, for each of kCount.
template <int kCount, typename T>
__device__ void store_gates(T* all, int64_t at, int64_t width, int64_t n, int64_t j,
                            const T* gate) {
  for (int64_t k = 0; k < kCount; ++k) store(all, at, width, k * n + j, gate[k]);
}

/// Arrays of the steps of an LSTM. h, c: the states (N, H); w: what the state makes of the gates,
/// (N, 4 H).
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

/// dh: of the last state of each row. dc: of the cell state that the step made; then of the one
/// before. d: of the gates, (N, 4 H), 0 for rows without the step. back: the product of the step
/// above, which is dh of its rows.
template <typename T>
struct LstmStepGrad {
  const T *dy, *dh, *h0, *c0, *out, *gates, *cells, *back;
  T *dc, *d;
  T *dgates, *previous;
};

/// The gradient of the state that a step made: what came with its row where it is the row's last,
/// else the product of the step above.
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

/// w: what the state makes of r, z, n, (N, 3 H); rh: r h.
template <typename T>
struct GruStep {
  const T *x, *bias;
  T *w, *h, *rh;
  T *out, *gates;
  bool linear;  // the reset gate comes behind the product
};

/// Where the reset gate comes first: r and z in w, and r h.
template <typename T>
__global__ void gru_reset(StepOrder order, int64_t step, GruStep<T> of) {
  const int64_t n = order.units;
  for (int64_t i = first_index(); i < order.rows * n; i += index_step()) {
    const UnitStep at(order, i, step);
    const int64_t j = at.unit;
    T rh = 0;
    if (at.active) {
      // The product has r and z alone.
      rh = gates::gru_reset(of.x + at.place * 3 * n + j, n, of.bias + j, n,
                            of.w + at.row * 2 * n + j, n, of.h[i]);
    }
    of.rh[i] = rh;
  }
}

/// `next`: W_n (r h), where the reset gate comes first.
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

/// dh: of the state that the step made; then what of it goes past the gates. d: of what the state
/// makes of the gates that come back in the product of `back`.
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
      // What went past the gates of the step above, and what came back through them.
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

/// Where the reset gate comes first: of r, from u, that of r h.
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

/// dh of the first state: of rows without a step what came with it, of others what the first step
/// gave back, and with `past` what went past its gates.
template <typename T>
__global__ void first_state_grad(StepOrder order, const T* dh, const T* back, bool past, T* dh0) {
  for (int64_t i = first_index(); i < order.rows * order.units; i += index_step()) {
    const bool stepped = order.length(i / order.units) > 0;
    dh0[i] = !stepped ? dh[i] : past ? dh[i] + back[i] : back[i];
  }
}

}  // namespace flow::cuda
