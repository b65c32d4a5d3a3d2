// The steps of recurrent layers and their gradients: in each step a product of all rows' states, by
// the library, and one kernel for the gates, a thread for each unit of a row.
#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/vector_math.h"
#include "runtime/cuda/kernels/families.h"
#include "runtime/cuda/loops/check_range.cuh"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// Which row does what in which step. Arrays of all steps are (N, T, ...).
struct StepOrder {
  int64_t rows, steps, units;
  bool reverse;
  Integers lengths;  // without data: all rows have all steps

  /// The steps of a row; those out of range, which stop the run, as many as there are.
  __device__ int64_t length(int64_t row) const {
    if (!lengths.data) return steps;
    const int64_t length = lengths[row];
    return length < 0 ? 0 : length < steps ? length : steps;
  }
};

/// A unit of a row in a step.
struct UnitStep {
  __device__ UnitStep(const StepOrder& order, int64_t i, int64_t step_number)
      : row(i / order.units), unit(i % order.units), step(step_number) {
    const int64_t length = order.length(row);
    active = step < length;
    place = row * order.steps + (active && order.reverse ? length - 1 - step : step);
    before = row * order.steps + (order.reverse ? length - step : step - 1);
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
    T gates[4] = {}, h = 0, c = 0;
    if (at.active) {
      const T *x = of.x + at.place * 4 * n + j, *w = of.w + at.row * 4 * n + j;
      gates[0] = math::sigmoid(x[0] + w[0]);
      gates[1] = math::sigmoid(x[n] + w[n]);
      gates[2] = math::tanh(x[2 * n] + w[2 * n]);
      gates[3] = math::sigmoid(x[3 * n] + w[3 * n]);
      c = gates[1] * of.c[i] + gates[0] * gates[2];
      h = gates[3] * math::tanh(c);
      of.c[i] = c;
      of.h[i] = h;
    }
    store(of.out, at.place, n, j, h);
    store(of.cells, at.place, n, j, c);
    for (int64_t k = 0; k < 4; ++k) store(of.gates, at.place, 4 * n, k * n + j, gates[k]);
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
      const T* gates = of.gates + at.place * 4 * n + j;
      const T g0 = gates[0], g1 = gates[n], g2 = gates[2 * n], g3 = gates[3 * n];
      const T c_before = step == 0 ? of.c0[i] : of.cells[at.before * n + j];
      const T total = state_grad(order, at, i, of.back, of.dh) + of.dy[at.place * n + j];
      const T t = math::tanh(of.cells[at.place * n + j]);
      const T cell = of.dc[i] + total * g3 * (T(1) - t * t);
      of.dc[i] = cell * g1;
      d[0] = cell * g2 * g0 * (T(1) - g0);
      d[1] = cell * c_before * g1 * (T(1) - g1);
      d[2] = cell * g0 * (T(1) - g2 * g2);
      d[3] = total * t * g3 * (T(1) - g3);
      previous = step == 0 ? of.h0[i] : of.out[at.before * n + j];
    }
    for (int64_t k = 0; k < 4; ++k) {
      of.d[at.row * 4 * n + k * n + j] = d[k];
      store(of.dgates, at.place, 4 * n, k * n + j, d[k]);
    }
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
      const T* x = of.x + at.place * 3 * n + j;
      T* w = of.w + at.row * 2 * n + j;
      w[0] = math::sigmoid(x[0] + (w[0] + of.bias[j]));
      w[n] = math::sigmoid(x[n] + (w[n] + of.bias[n + j]));
      rh = w[0] * of.h[i];
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
    T gates[4] = {}, h = 0;
    if (at.active) {
      const T* x = of.x + at.place * 3 * n + j;
      if (of.linear) {
        const T* w = of.w + at.row * 3 * n + j;
        gates[0] = math::sigmoid(x[0] + (w[0] + of.bias[j]));
        gates[1] = math::sigmoid(x[n] + (w[n] + of.bias[n + j]));
        gates[3] = w[2 * n] + of.bias[2 * n + j];
        gates[2] = math::tanh(x[2 * n] + gates[0] * gates[3]);
      } else {
        const T* w = of.w + at.row * 2 * n + j;
        gates[0] = w[0];
        gates[1] = w[n];
        gates[2] = math::tanh(x[2 * n] + (next[i] + of.bias[2 * n + j]));
      }
      h = (T(1) - gates[1]) * gates[2] + gates[1] * of.h[i];
      of.h[i] = h;
    }
    store(of.out, at.place, n, j, h);
    for (int64_t k = 0; k < 3; ++k) store(of.gates, at.place, saved * n, k * n + j, gates[k]);
    if (of.linear) store(of.gates, at.place, saved * n, 3 * n + j, gates[3]);
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
      const T* gates = of.gates + at.place * saved * n + j;
      const T r = gates[0], z = gates[n], next = gates[2 * n];
      before = step == 0 ? of.h0[i] : of.out[at.before * n + j];
      // What went past the gates of the step above, and what came back through them.
      const bool last = step + 1 >= order.length(at.row);
      const T total = of.dh[i] + (last ? T(0) : of.back[i]) + of.dy[at.place * n + j];
      x[1] = w[1] = total * (before - next) * z * (T(1) - z);
      x[2] = total * (T(1) - z) * (T(1) - next * next);
      if (of.linear) {
        w[2] = x[2] * r;
        x[0] = w[0] = x[2] * gates[3 * n] * r * (T(1) - r);
      }
      of.dh[i] = total * z;
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
      d = u[i] * before * r * (T(1) - r);
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

/// NaN stays NaN.
template <typename T>
__global__ void rnn_step(StepOrder order, int64_t step, RnnStep<T> of) {
  const int64_t n = order.units;
  for (int64_t i = first_index(); i < order.rows * n; i += index_step()) {
    const UnitStep at(order, i, step);
    T h = 0;
    if (at.active) {
      const T sum = of.x[at.place * n + at.unit] + of.w[i];
      h = !of.relu ? math::tanh(sum) : sum <= T(0) ? T(0) : sum;
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
      d = !of.relu ? total * (T(1) - y * y) : y > T(0) ? total : T(0);
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

__global__ void check_lengths(Integers lengths, RangeCheck check, const CallBlock* call,
                              FaultBlock* fault) {
  check_range(lengths, check, call, fault);
}

/// What launches of all kinds of steps share: the order, a check of lengths, products and memory.
class StepsRequest {
 public:
  /// `all`: an operand (N, T, ...), `weight`: (G H, H), `lengths`: perhaps an operand.
  StepsRequest(const Request& request, size_t all, size_t weight, size_t lengths)
      : request_(request), lengths_(lengths) {
    const Shape& shape = request.inputs[all].shape;
    order_ = {shape[0],
              shape[1],
              request.inputs[weight].shape[1],
              attribute<bool>(request, "reverse"),
              {nullptr, DType::kInt32}};
    if (has_lengths()) check_ = add_check(request, request.inputs[lengths], order_.steps + 1);
  }

  const StepOrder& order() const { return order_; }
  DType dtype() const { return request_.inputs[0].dtype; }

  /// out [N, n] = a [N, k] b, with b stored as [n, k] where `transpose` says so, else as [k, n];
  /// `offset`: of b in the weight, in elements.
  LibraryKernel product(int64_t n, int64_t k, bool transpose, int64_t offset = 0) {
    MatmulSpec spec{
        dtype(), {order_.rows, k}, transpose ? Shape{n, k} : Shape{k, n}, {order_.rows, n}};
    spec.transpose_b = transpose;
    spec.math_mode = request_.math_mode;
    const auto bytes = static_cast<uint64_t>(offset) * size_of(dtype()) | 256;
    spec.alignment = static_cast<uint32_t>(bytes & -bytes);
    const Expected<LibraryKernel> found = request_.libraries.find(spec);
    if (!found) throw found.error();
    name_ = found->name;
    library_bytes_ = std::max(library_bytes_, found->workspace);
    return *found;
  }

  /// The offset in the workspace of an array (N, width).
  size_t array(int64_t width) {
    const size_t at = array_bytes_;
    array_bytes_ += round_up(static_cast<size_t>(order_.rows * width) * size_of(dtype()), 256);
    return at;
  }

  /// A kernel that calls steps(order of the launch, buffers, state) behind the check. Library
  /// kernels have the workspace behind the arrays: at library_workspace().
  template <typename Steps>
  Kernel kernel(Steps steps) const {
    const LaunchShape one{{1}, {kThreads}, kThreads / kWarp * sizeof(int64_t)};
    Kernel made;
    made.workspace = array_bytes_ + library_bytes_;
    made.name = name_;
    made.launch = [=, has = has_lengths(), at = lengths_, check = check_, order = order_,
                   type = has_lengths() ? request_.inputs[lengths_].dtype : DType::kInt32](
                      const Buffers& buffers, const LaunchState& state) {
      StepOrder own = order;
      if (has) {
        own.lengths = {buffers.inputs[at], type};
        launch(state.driver, state.stream, "check_lengths", one, check_lengths, own.lengths, check,
               state.call, state.fault);
      }
      steps(own, buffers, state);
    };
    return made;
  }
  size_t library_workspace() const { return array_bytes_; }

 private:
  bool has_lengths() const { return lengths_ < request_.inputs.size(); }

  const Request& request_;
  size_t lengths_;
  StepOrder order_;
  RangeCheck check_{};
  size_t array_bytes_ = 0, library_bytes_ = 0;
  std::string name_;
};

/// One launch of steps, of elements T.
template <typename T>
struct StepsRun {
  const StepOrder& order;
  const Buffers& buffers;
  const LaunchState& state;
  size_t library_workspace;

  T* array(size_t offset) const { return reinterpret_cast<T*>(buffers.workspace + offset); }
  const T* in(size_t i) const { return input<T>(buffers, i); }
  /// Null where nobody reads it.
  T* out(size_t i) const { return i < buffers.outputs.size() ? output<T>(buffers, i) : nullptr; }
  int64_t elements() const { return order.rows * order.units; }
  void copy(T* to, const T* from) const {
    if (to) state.driver.copy(to, from, static_cast<size_t>(elements()) * sizeof(T), state.stream);
  }
  void multiply(const LibraryKernel& kernel, const T* a, const T* b, T* to) const {
    kernel.run({reinterpret_cast<const std::byte*>(a), reinterpret_cast<const std::byte*>(b),
                nullptr, reinterpret_cast<std::byte*>(to), buffers.workspace + library_workspace},
               state.stream);
  }
  template <typename... Parameters>
  void each(const char* name, void (*kernel)(Parameters...),
            std::type_identity_t<Parameters>... values) const {
    launch(state.driver, state.stream, name, shape_for(elements()), kernel, values...);
  }
};

/// make(T{}) for the dtype of the call.
template <typename Make>
Kernel visit_steps(const StepsRequest& request, Make make) {
  return visit_float(request.dtype(), make);
}

/// gates, weight, h0, c0, lengths -> out, h, c, gates, cells
Kernel prepare_lstm_steps(const Request& request) {
  StepsRequest steps(request, 0, 1, 4);
  const int64_t n = steps.order().units;
  const LibraryKernel product = steps.product(4 * n, n, true);
  const size_t h = steps.array(n), c = steps.array(n), w = steps.array(4 * n);
  return visit_steps(steps, [&]<typename T>(T) {
    return steps.kernel([=, library = steps.library_workspace()](const StepOrder& order,
                                                                 const Buffers& buffers,
                                                                 const LaunchState& state) {
      const StepsRun<T> run{order, buffers, state, library};
      run.copy(run.array(h), run.in(2));
      run.copy(run.array(c), run.in(3));
      const LstmStep<T> of{run.in(0),  run.array(w), run.array(h), run.array(c),
                           run.out(0), run.out(3),   run.out(4)};
      for (int64_t step = 0; step < order.steps; ++step) {
        run.multiply(product, run.array(h), run.in(1), run.array(w));
        run.each("lstm_step", lstm_step<T>, order, step, of);
      }
      run.copy(run.out(1), run.array(h));
      run.copy(run.out(2), run.array(c));
    });
  });
}

/// dy, dh, dc, weight, h0, c0, out, gates, cells, lengths -> dgates, previous, dh0, dc0
Kernel prepare_lstm_steps_grad(const Request& request) {
  StepsRequest steps(request, 0, 3, 9);
  const int64_t n = steps.order().units;
  const LibraryKernel product = steps.product(n, 4 * n, false);
  const size_t dc = steps.array(n), back = steps.array(n), d = steps.array(4 * n);
  return visit_steps(steps, [&]<typename T>(T) {
    return steps.kernel([=, library = steps.library_workspace()](const StepOrder& order,
                                                                 const Buffers& buffers,
                                                                 const LaunchState& state) {
      const StepsRun<T> run{order, buffers, state, library};
      run.copy(run.array(dc), run.in(2));
      const LstmStepGrad<T> of{run.in(0),     run.in(1),    run.in(4),  run.in(5),
                               run.in(6),     run.in(7),    run.in(8),  run.array(back),
                               run.array(dc), run.array(d), run.out(0), run.out(1)};
      for (int64_t step = order.steps - 1; step >= 0; --step) {
        run.each("lstm_step_grad", lstm_step_grad<T>, order, step, of);
        run.multiply(product, run.array(d), run.in(3), run.array(back));
      }
      if (run.out(2))
        run.each("first_state_grad", first_state_grad<T>, order, run.in(1), run.array(back), false,
                 run.out(2));
      run.copy(run.out(3), run.array(dc));
    });
  });
}

/// gates, weight, bias, h0, lengths -> out, h, gates
Kernel prepare_gru_steps(const Request& request) {
  StepsRequest steps(request, 0, 1, 4);
  const int64_t n = steps.order().units;
  const bool linear = attribute<bool>(request, "linear_before_reset");
  const LibraryKernel product = steps.product(linear ? 3 * n : 2 * n, n, true);
  const LibraryKernel next = linear ? LibraryKernel() : steps.product(n, n, true, 2 * n * n);
  const size_t h = steps.array(n), w = steps.array(3 * n), rh = steps.array(n),
               news = steps.array(n);
  return visit_steps(steps, [&]<typename T>(T) {
    return steps.kernel([=, library = steps.library_workspace()](const StepOrder& order,
                                                                 const Buffers& buffers,
                                                                 const LaunchState& state) {
      const StepsRun<T> run{order, buffers, state, library};
      run.copy(run.array(h), run.in(3));
      const GruStep<T> of{run.in(0),     run.in(2),  run.array(w), run.array(h),
                          run.array(rh), run.out(0), run.out(2),   linear};
      for (int64_t step = 0; step < order.steps; ++step) {
        run.multiply(product, run.array(h), run.in(1), run.array(w));
        if (!linear) {
          run.each("gru_reset", gru_reset<T>, order, step, of);
          run.multiply(next, run.array(rh), run.in(1) + 2 * n * n, run.array(news));
        }
        run.each("gru_step", gru_step<T>, order, step, of, run.array(news));
      }
      run.copy(run.out(1), run.array(h));
    });
  });
}

/// dy, dh, weight, h0, out, gates, lengths -> dgates, previous, dh0, hidden
Kernel prepare_gru_steps_grad(const Request& request) {
  StepsRequest steps(request, 0, 2, 6);
  const int64_t n = steps.order().units;
  const bool linear = attribute<bool>(request, "linear_before_reset");
  const LibraryKernel product = steps.product(n, linear ? 3 * n : 2 * n, false);
  const LibraryKernel through = linear ? LibraryKernel() : steps.product(n, n, false, 2 * n * n);
  const size_t dh = steps.array(n), back = steps.array(n), d = steps.array(3 * n),
               dn = steps.array(n), u = steps.array(n);
  return visit_steps(steps, [&]<typename T>(T) {
    return steps.kernel([=, library = steps.library_workspace()](const StepOrder& order,
                                                                 const Buffers& buffers,
                                                                 const LaunchState& state) {
      const StepsRun<T> run{order, buffers, state, library};
      run.copy(run.array(dh), run.in(1));
      const GruStepGrad<T> of{run.in(0),       run.in(3),     run.in(4),    run.in(5),
                              run.array(back), run.array(dh), run.array(d), run.out(0),
                              run.out(1),      run.out(3),    linear};
      for (int64_t step = order.steps - 1; step >= 0; --step) {
        run.each("gru_step_grad", gru_step_grad<T>, order, step, of, run.array(dn));
        if (!linear) {
          run.multiply(through, run.array(dn), run.in(2) + 2 * n * n, run.array(u));
          run.each("gru_reset_grad", gru_reset_grad<T>, order, step, of, run.array(u));
        }
        run.multiply(product, run.array(d), run.in(2), run.array(back));
      }
      if (run.out(2))
        run.each("first_state_grad", first_state_grad<T>, order, run.array(dh), run.array(back),
                 true, run.out(2));
    });
  });
}

/// gates, weight, h0, lengths -> out, h
Kernel prepare_rnn_steps(const Request& request) {
  StepsRequest steps(request, 0, 1, 3);
  const int64_t n = steps.order().units;
  const bool relu = attribute<std::string>(request, "activation") == "relu";
  const LibraryKernel product = steps.product(n, n, true);
  const size_t h = steps.array(n), w = steps.array(n);
  return visit_steps(steps, [&]<typename T>(T) {
    return steps.kernel([=, library = steps.library_workspace()](const StepOrder& order,
                                                                 const Buffers& buffers,
                                                                 const LaunchState& state) {
      const StepsRun<T> run{order, buffers, state, library};
      run.copy(run.array(h), run.in(2));
      const RnnStep<T> of{run.in(0), run.array(w), run.array(h), run.out(0), relu};
      for (int64_t step = 0; step < order.steps; ++step) {
        run.multiply(product, run.array(h), run.in(1), run.array(w));
        run.each("rnn_step", rnn_step<T>, order, step, of);
      }
      run.copy(run.out(1), run.array(h));
    });
  });
}

/// dy, dh, weight, h0, out, lengths -> dgates, previous, dh0
Kernel prepare_rnn_steps_grad(const Request& request) {
  StepsRequest steps(request, 0, 2, 5);
  const int64_t n = steps.order().units;
  const bool relu = attribute<std::string>(request, "activation") == "relu";
  const LibraryKernel product = steps.product(n, n, false);
  const size_t back = steps.array(n), d = steps.array(n);
  return visit_steps(steps, [&]<typename T>(T) {
    return steps.kernel([=, library = steps.library_workspace()](const StepOrder& order,
                                                                 const Buffers& buffers,
                                                                 const LaunchState& state) {
      const StepsRun<T> run{order, buffers, state, library};
      const RnnStepGrad<T> of{run.in(0),    run.in(1),  run.in(3),  run.in(4), run.array(back),
                              run.array(d), run.out(0), run.out(1), relu};
      for (int64_t step = order.steps - 1; step >= 0; --step) {
        run.each("rnn_step_grad", rnn_step_grad<T>, order, step, of);
        run.multiply(product, run.array(d), run.in(2), run.array(back));
      }
      if (run.out(2))
        run.each("first_state_grad", first_state_grad<T>, order, run.in(1), run.array(back), false,
                 run.out(2));
    });
  });
}

}  // namespace

std::span<const KernelEntry> kernels::recurrent() {
  static constexpr KernelEntry kKernels[] = {
      {"lstm_steps", prepare_lstm_steps, Order::kOwn},
      {"lstm_steps_grad", prepare_lstm_steps_grad, Order::kOwn},
      {"gru_steps", prepare_gru_steps, Order::kOwn},
      {"gru_steps_grad", prepare_gru_steps_grad, Order::kOwn},
      {"rnn_steps", prepare_rnn_steps, Order::kOwn},
      {"rnn_steps_grad", prepare_rnn_steps_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
