// Kernels of the steps of recurrent layers and of their gradients. Rows do not depend on each
// other, so each thread takes some rows through all steps: each step computes one product of the
// rows' states with oneDNN, then the gates row by row. The number of rows in a group depends only
// on shapes.
#include <dnnl.h>

#include <string>
#include <utility>

#include "ops/recurrent/cpu_rows.h"
#include "runtime/base/vector_math.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/onednn_status.h"

namespace flow::cpu::fast {
namespace {

/// out [m, n] = a [m, k] b [k, n]. Rows of a are a_row apart, and rows of out are out_row apart.
void multiply(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, const Factor& b,
              float* out, int64_t out_row) {
  must_succeed([&] {
    return dnnl_sgemm('N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a, a_row, b.data, b.row, 0.0f,
                      out, out_row);
  });
}

// The functions below compute the gates of all units of a row.

FLOW_VECTORIZED void lstm_gates(const float* x, float* w, int64_t n, float* c, float* h) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) gates::lstm(x + j, n, w + j, n, c[j], h[j]);
}

FLOW_VECTORIZED void lstm_gates_grad(const float* gate, const float* c, const float* c_before,
                                     const float* dy, const float* dh, int64_t n, float* dc,
                                     float* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j)
    gates::lstm_grad(gate + j, n, c[j], c_before[j], dh[j] + dy[j], dc[j], d + j, n);
}

FLOW_VECTORIZED void gru_gates(const float* x, const float* bias, float* w, int64_t n, float* h) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) gates::gru(x + j, n, bias + j, n, w + j, n, h[j]);
}

FLOW_VECTORIZED void gru_reset(const float* x, const float* bias, const float* h, float* w,
                               int64_t n, float* rh) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) rh[j] = gates::gru_reset(x + j, n, bias + j, n, w + j, n, h[j]);
}

FLOW_VECTORIZED void gru_update(const float* x, const float* bias, float* w, int64_t n, float* h) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) gates::gru_update(x + j, n, bias + j, n, w + j, n, h[j]);
}

FLOW_VECTORIZED void gru_gates_grad(const float* gate, const float* h_before, const float* dy,
                                    int64_t n, float* dh, float* d, float* w) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j)
    dh[j] = gates::gru_grad(gate + j, n, h_before[j], dh[j] + dy[j], d + j, w + j, n);
}

/// Compute the gradients of a layer whose reset gate comes before the product: first those of z and
/// n, then, from the gradient `u` of r h, those of r.
FLOW_VECTORIZED void gru_update_grad(const float* gate, const float* h_before, const float* dy,
                                     int64_t n, float* dh, float* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j)
    dh[j] = gates::gru_update_grad(gate + j, n, h_before[j], dh[j] + dy[j], d + j, n);
}
FLOW_VECTORIZED void gru_reset_grad(const float* gate, const float* h_before, const float* u,
                                    int64_t n, float* dh, float* d, float* rh) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    d[j] = gates::sigmoid_grad(u[j] * h_before[j], gate[j]);
    dh[j] += u[j] * gate[j];
    rh[j] = gate[j] * h_before[j];
  }
}

// Each activation gets its own function, because not every compiler clones templates for several
// instruction sets.
#define FLOW_RNN(name, kRelu)                                                                  \
  FLOW_VECTORIZED void name##_step(const float* x, const float* w, int64_t n, float* h) {      \
    _Pragma("omp simd") for (int64_t j = 0; j < n; ++j) h[j] = gates::rnn<kRelu>(x[j] + w[j]); \
  }                                                                                            \
  FLOW_VECTORIZED void name##_step_grad(const float* y, const float* dy, const float* dh,      \
                                        int64_t n, float* d) {                                 \
    _Pragma("omp simd") for (int64_t j = 0; j < n; ++j) d[j] =                                 \
        gates::rnn_grad<kRelu>(dh[j] + dy[j], y[j]);                                           \
  }
FLOW_RNN(tanh, false)
FLOW_RNN(relu, true)
#undef FLOW_RNN

FLOW_VECTORIZED void add_row(const float* x, int64_t n, float* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] += x[j];
}

/// Computes out, h, c, gates and cells from gates, weight, h0, c0 and lengths.
Kernel prepare_lstm_steps(const Request& request) {
  StepOrder order(request, 1, 4);
  const int64_t n = order.units;
  Scratch scratch(request, order, {n, n, 4 * n}, StateWeight(request, 1, order.steps));
  return over_chunks(request, std::move(order), std::move(scratch),
                     [n](const ChunkRun& run, auto array) {
                       float *h = array(0), *c = array(1), *w = array(2);
                       run.load(2, h);
                       run.load(3, c);
                       for (int64_t step = 0; step < run.order.steps; ++step) {
                         if (run.any(step))
                           multiply(run.rows.count, 4 * n, n, h, n, run.weight, w, 4 * n);
                         run.for_rows(step, {{0, h, n, n}, {3, w, 4 * n, 4 * n}, {4, c, n, n}},
                                      [&](int64_t row, int64_t place) {
                                        lstm_gates(input<float>(run.buffers, 0) + place * 4 * n,
                                                   w + row * 4 * n, n, c + row * n, h + row * n);
                                      });
                       }
                       run.save(h, 1);
                       run.save(c, 2);
                     });
}

/// Computes the gradients of steps in reverse order. `dh` first contains the gradient of the last
/// state and finally that of the first state.
struct BackwardSteps {
  float *dh, *d, *back;  // rows of n, `gates` * n and n floats
  int64_t gates;
  size_t out, initial;  // indices of operands

  /// Runs all steps. unit(row, place, step) computes the gradients of a row's gates from dh.
  template <typename Unit>
  void run(const ChunkRun& run, Unit unit) const {
    const int64_t n = run.order.units, width = gates * n;
    run.load(1, dh);
    for (int64_t step = run.order.steps - 1; step >= 0; --step) {
      run.for_rows(
          step,
          [&](int64_t row, int64_t place) {
            unit(row, place, step);
            store_floats(run.result(0), place, d + row * width, width);
            store_floats(run.result(1), place,
                         run.before(input<float>(run.buffers, out), initial, row, step), n);
          },
          [&](int64_t row, int64_t place) {
            clear(d + row * width, width);
            store_zeros(run.result(0), place, width);
            store_zeros(run.result(1), place, n);
          });
      if (!run.any(step)) continue;
      multiply(run.rows.count, n, width, d, width, run.weight, back, n);
      run.for_active(step,
                     [&](int64_t row, int64_t) { copy_floats(back + row * n, n, dh + row * n); });
    }
    run.save(dh, 2);
  }
};

/// Computes dgates, previous, dh0 and dc0 from dy, dh, dc, weight, h0, c0, out, gates, cells and
/// lengths.
Kernel prepare_lstm_steps_grad(const Request& request) {
  StepOrder order(request, 3, 9);
  const int64_t n = order.units;
  Scratch scratch(request, order, {n, n, n, 4 * n}, StateWeight(request, 3));
  return over_chunks(
      request, std::move(order), std::move(scratch), [n](const ChunkRun& run, auto array) {
        float *dh = array(0), *dc = array(1), *d = array(3);
        const float *made = input<float>(run.buffers, 7), *cells = input<float>(run.buffers, 8);
        run.load(2, dc);
        BackwardSteps{dh, d, array(2), 4, 6, 4}.run(run, [&](int64_t row, int64_t place,
                                                             int64_t step) {
          lstm_gates_grad(made + place * 4 * n, cells + place * n, run.before(cells, 5, row, step),
                          input<float>(run.buffers, 0) + place * n, dh + row * n, n, dc + row * n,
                          d + row * 4 * n);
        });
        run.save(dc, 3);
      });
}

/// Computes out, h and gates from gates, weight, bias, h0 and lengths.
Kernel prepare_gru_steps(const Request& request) {
  StepOrder order(request, 1, 4);
  const int64_t n = order.units;
  const bool linear = request.step.attributes.get<bool>("linear_before_reset");
  Scratch scratch(request, order, {n, 4 * n, n}, StateWeight(request, 1, order.steps));
  return over_chunks(
      request, std::move(order), std::move(scratch), [n, linear](const ChunkRun& run, auto array) {
        float *h = array(0), *w = array(1), *rh = array(2);
        const float* bias = input<float>(run.buffers, 2);
        const int64_t saved = linear ? 4 * n : 3 * n;
        const auto x = [&](int64_t place) { return input<float>(run.buffers, 0) + place * 3 * n; };
        run.load(3, h);
        for (int64_t step = 0; step < run.order.steps; ++step) {
          if (run.any(step))
            multiply(run.rows.count, linear ? 3 * n : 2 * n, n, h, n, run.weight, w, 4 * n);
          if (run.any(step) && !linear) {
            clear(rh, run.floats());
            run.for_active(step, [&](int64_t row, int64_t place) {
              gru_reset(x(place), bias, h + row * n, w + row * 4 * n, n, rh + row * n);
            });
            multiply(run.rows.count, n, n, rh, n, run.weight.from(0, 2 * n), w + 2 * n, 4 * n);
          }
          run.for_rows(step, {{0, h, n, n}, {2, w, 4 * n, saved}}, [&](int64_t row, int64_t place) {
            (linear ? gru_gates : gru_update)(x(place), bias, w + row * 4 * n, n, h + row * n);
          });
        }
        run.save(h, 1);
      });
}

/// Computes dgates, previous, dh0 and hidden from dy, dh, weight, h0, out, gates and lengths.
Kernel prepare_gru_steps_grad(const Request& request) {
  StepOrder order(request, 2, 6);
  const int64_t n = order.units;
  const bool linear = request.step.attributes.get<bool>("linear_before_reset");
  Scratch scratch(request, order, {n, 3 * n, 3 * n, n}, StateWeight(request, 2));
  return over_chunks(
      request, std::move(order), std::move(scratch), [n, linear](const ChunkRun& run, auto array) {
        float *dh = array(0), *d = array(1), *w = array(2), *back = array(3);
        const int64_t hidden = linear ? 3 * n : n, saved = linear ? 4 * n : 3 * n;
        run.load(1, dh);
        for (int64_t step = run.order.steps - 1; step >= 0; --step) {
          const auto gates = [&](int64_t place) {
            return input<float>(run.buffers, 5) + place * saved;
          };
          const auto before = [&](int64_t row) {
            return run.before(input<float>(run.buffers, 4), 3, row, step);
          };
          run.for_rows(
              step,
              [&](int64_t row, int64_t place) {
                const float* dy = input<float>(run.buffers, 0) + place * n;
                if (linear)
                  gru_gates_grad(gates(place), before(row), dy, n, dh + row * n, d + row * 3 * n,
                                 w + row * 3 * n);
                else
                  gru_update_grad(gates(place), before(row), dy, n, dh + row * n, d + row * 3 * n);
                store_floats(run.result(1), place, before(row), n);
              },
              [&](int64_t row, int64_t place) {
                clear(d + row * 3 * n, 3 * n);
                clear(w + row * 3 * n, 3 * n);
                store_zeros(run.result(0), place, 3 * n);
                store_zeros(run.result(1), place, n);
                store_zeros(run.result(3), place, hidden);
              });
          if (!run.any(step)) continue;
          if (!linear) {
            multiply(run.rows.count, n, n, d + 2 * n, 3 * n, run.weight.from(2 * n, 0), back, n);
            run.for_active(step, [&](int64_t row, int64_t place) {
              gru_reset_grad(gates(place), before(row), back + row * n, n, dh + row * n,
                             d + row * 3 * n, w + row * 3 * n);
            });
          }
          run.for_active(step, [&](int64_t row, int64_t place) {
            store_floats(run.result(0), place, d + row * 3 * n, 3 * n);
            store_floats(run.result(3), place, w + row * 3 * n, hidden);
          });
          multiply(run.rows.count, n, linear ? 3 * n : 2 * n, linear ? w : d, 3 * n, run.weight,
                   back, n);
          run.for_active(step,
                         [&](int64_t row, int64_t) { add_row(back + row * n, n, dh + row * n); });
        }
        run.save(dh, 2);
      });
}

bool is_relu(const Request& request) {
  return request.step.attributes.get<std::string>("activation") == "relu";
}

/// Computes out and h from gates, weight, h0 and lengths.
Kernel prepare_rnn_steps(const Request& request) {
  StepOrder order(request, 1, 3);
  const int64_t n = order.units;
  Scratch scratch(request, order, {n, n}, StateWeight(request, 1, order.steps));
  return over_chunks(
      request, std::move(order), std::move(scratch),
      [n, advance = is_relu(request) ? relu_step : tanh_step](const ChunkRun& run, auto array) {
        float *h = array(0), *w = array(1);
        run.load(2, h);
        for (int64_t step = 0; step < run.order.steps; ++step) {
          if (run.any(step)) multiply(run.rows.count, n, n, h, n, run.weight, w, n);
          run.for_rows(step, {{0, h, n, n}}, [&](int64_t row, int64_t place) {
            advance(input<float>(run.buffers, 0) + place * n, w + row * n, n, h + row * n);
          });
        }
        run.save(h, 1);
      });
}

/// Computes dgates, previous and dh0 from dy, dh, weight, h0, out and lengths.
Kernel prepare_rnn_steps_grad(const Request& request) {
  StepOrder order(request, 2, 5);
  const int64_t n = order.units;
  Scratch scratch(request, order, {n, n, n}, StateWeight(request, 2));
  return over_chunks(
      request, std::move(order), std::move(scratch),
      [n, retreat = is_relu(request) ? relu_step_grad : tanh_step_grad](const ChunkRun& run,
                                                                        auto array) {
        float *dh = array(0), *d = array(1);
        BackwardSteps{dh, d, array(2), 1, 4, 3}.run(run, [&](int64_t row, int64_t place, int64_t) {
          retreat(input<float>(run.buffers, 4) + place * n,
                  input<float>(run.buffers, 0) + place * n, dh + row * n, n, d + row * n);
        });
      });
}

}  // namespace

std::span<const KernelEntry> recurrent() {
  static constexpr auto of = [](std::string_view op, Prepare prepare) {
    return KernelEntry{.op = op, .prepare = prepare, .generates_code = true};
  };
  static constexpr KernelEntry kKernels[] = {
      of("lstm_steps", prepare_lstm_steps), of("lstm_steps_grad", prepare_lstm_steps_grad),
      of("gru_steps", prepare_gru_steps),   of("gru_steps_grad", prepare_gru_steps_grad),
      of("rnn_steps", prepare_rnn_steps),   of("rnn_steps_grad", prepare_rnn_steps_grad),
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
