// The steps of recurrent layers and their gradients. Rows depend on nothing but themselves, so that
// each thread takes some rows through all steps: in each step one product of their states, by
// oneDNN, then the gates row by row. How many rows depends on shapes alone.
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

/// out [m, n] = a [m, k] b [k, n]. Rows of a and out lie a_row and out_row apart.
void multiply(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, const Factor& b,
              float* out, int64_t out_row) {
  must_succeed([&] {
    return dnnl_sgemm('N', b.transposed ? 'T' : 'N', m, n, k, 1.0f, a, a_row, b.data, b.row, 0.0f,
                      out, out_row);
  });
}

/// x: what the input makes of the gates i, f, g, o; w: what the state makes of them, then the
/// gates.
FLOW_VECTORIZED void lstm_gates(const float* x, float* w, int64_t n, float* c, float* h) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float i = math::sigmoid(x[j] + w[j]);
    const float f = math::sigmoid(x[n + j] + w[n + j]);
    const float g = math::tanh(x[2 * n + j] + w[2 * n + j]);
    const float o = math::sigmoid(x[3 * n + j] + w[3 * n + j]);
    c[j] = f * c[j] + i * g;
    h[j] = o * math::tanh(c[j]);
    w[j] = i;
    w[n + j] = f;
    w[2 * n + j] = g;
    w[3 * n + j] = o;
  }
}

/// dh, dc: of the state that the step made; then dc of the one before it. d: of the gates.
FLOW_VECTORIZED void lstm_gates_grad(const float* gates, const float* c, const float* c_before,
                                     const float* dy, const float* dh, int64_t n, float* dc,
                                     float* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float i = gates[j], f = gates[n + j], g = gates[2 * n + j], o = gates[3 * n + j];
    const float out = dh[j] + dy[j], t = math::tanh(c[j]);
    const float cell = dc[j] + out * o * (1 - t * t);
    dc[j] = cell * f;
    d[j] = cell * g * i * (1 - i);
    d[n + j] = cell * c_before[j] * f * (1 - f);
    d[2 * n + j] = cell * i * (1 - g * g);
    d[3 * n + j] = out * t * o * (1 - o);
  }
}

/// w: what the state makes of r, z, n; then r, z, n, W_n h + b_n.
FLOW_VECTORIZED void gru_gates(const float* x, const float* bias, float* w, int64_t n, float* h) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float r = math::sigmoid(x[j] + (w[j] + bias[j]));
    const float z = math::sigmoid(x[n + j] + (w[n + j] + bias[n + j]));
    const float q = w[2 * n + j] + bias[2 * n + j];
    const float next = math::tanh(x[2 * n + j] + r * q);
    h[j] = (1 - z) * next + z * h[j];
    w[j] = r;
    w[n + j] = z;
    w[2 * n + j] = next;
    w[3 * n + j] = q;
  }
}

/// w: what the state makes of r and z; then these gates. rh: r h.
FLOW_VECTORIZED void gru_reset(const float* x, const float* bias, const float* h, float* w,
                               int64_t n, float* rh) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    w[j] = math::sigmoid(x[j] + (w[j] + bias[j]));
    w[n + j] = math::sigmoid(x[n + j] + (w[n + j] + bias[n + j]));
    rh[j] = w[j] * h[j];
  }
}

/// w: r, z and W_n (r h), then the new gate.
FLOW_VECTORIZED void gru_update(const float* x, const float* bias, float* w, int64_t n, float* h) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float next = math::tanh(x[2 * n + j] + (w[2 * n + j] + bias[2 * n + j]));
    h[j] = (1 - w[n + j]) * next + w[n + j] * h[j];
    w[2 * n + j] = next;
  }
}

/// dh: of the state that the step made; then what of it goes past the gates to the one before it.
/// d: of what the input makes of the gates; w: of what the state makes.
FLOW_VECTORIZED void gru_gates_grad(const float* gates, const float* h_before, const float* dy,
                                    int64_t n, float* dh, float* d, float* w) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float r = gates[j], z = gates[n + j], next = gates[2 * n + j], q = gates[3 * n + j];
    const float out = dh[j] + dy[j];
    const float dn = out * (1 - z) * (1 - next * next);
    d[j] = w[j] = dn * q * r * (1 - r);
    d[n + j] = w[n + j] = out * (h_before[j] - next) * z * (1 - z);
    d[2 * n + j] = dn;
    w[2 * n + j] = dn * r;
    dh[j] = out * z;
  }
}

/// The same where the reset gate comes first: of z and n, then, from `u` of r h, of r.
FLOW_VECTORIZED void gru_update_grad(const float* gates, const float* h_before, const float* dy,
                                     int64_t n, float* dh, float* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float z = gates[n + j], next = gates[2 * n + j];
    const float out = dh[j] + dy[j];
    d[n + j] = out * (h_before[j] - next) * z * (1 - z);
    d[2 * n + j] = out * (1 - z) * (1 - next * next);
    dh[j] = out * z;
  }
}
FLOW_VECTORIZED void gru_reset_grad(const float* gates, const float* h_before, const float* u,
                                    int64_t n, float* dh, float* d, float* rh) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float r = gates[j];
    d[j] = u[j] * h_before[j] * r * (1 - r);
    dh[j] += u[j] * r;
    rh[j] = r * h_before[j];
  }
}

FLOW_VECTORIZED void tanh_step(const float* x, const float* w, int64_t n, float* h) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) h[j] = math::tanh(x[j] + w[j]);
}

/// NaN stays NaN.
FLOW_VECTORIZED void relu_step(const float* x, const float* w, int64_t n, float* h) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float sum = x[j] + w[j];
    h[j] = sum <= 0 ? 0 : sum;
  }
}

FLOW_VECTORIZED void tanh_step_grad(const float* y, const float* dy, const float* dh, int64_t n,
                                    float* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) d[j] = (dh[j] + dy[j]) * (1 - y[j] * y[j]);
}

FLOW_VECTORIZED void relu_step_grad(const float* y, const float* dy, const float* dh, int64_t n,
                                    float* d) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    const float passed = dh[j] + dy[j];
    d[j] = y[j] > 0 ? passed : 0;
  }
}

FLOW_VECTORIZED void add_row(const float* x, int64_t n, float* y) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] += x[j];
}

/// gates, weight, h0, c0, lengths -> out, h, c, gates, cells
Kernel prepare_lstm_steps(const Request& request) {
  const int64_t n = units_of(request, 1);
  StepOrder order(request, request.inputs[0].shape, n, 4, 4);
  Scratch scratch(request, order, {n, n, 4 * n}, StateWeight(request, 1, order.steps));
  return over_chunks(request, std::move(order), std::move(scratch),
                     [n](const ChunkRun& run, auto array) {
                       float *h = array(0), *c = array(1), *w = array(2);
                       run.load(2, h);
                       run.load(3, c);
                       for (int64_t step = 0; step < run.order.steps; ++step) {
                         if (run.any(step))
                           multiply(run.rows.count, 4 * n, n, h, n, run.weight, w, 4 * n);
                         run.for_rows(
                             step,
                             [&](int64_t row, int64_t place) {
                               lstm_gates(input<float>(run.buffers, 0) + place * 4 * n,
                                          w + row * 4 * n, n, c + row * n, h + row * n);
                               store_floats(run.result(0), place, h + row * n, n);
                               store_floats(run.result(3), place, w + row * 4 * n, 4 * n);
                               store_floats(run.result(4), place, c + row * n, n);
                             },
                             [&](int64_t, int64_t place) {
                               store_zeros(run.result(0), place, n);
                               store_zeros(run.result(3), place, 4 * n);
                               store_zeros(run.result(4), place, n);
                             });
                       }
                       run.save(h, 1);
                       run.save(c, 2);
                     });
}

/// dy, dh, dc, weight, h0, c0, out, gates, cells, lengths -> dgates, previous, dh0, dc0
Kernel prepare_lstm_steps_grad(const Request& request) {
  const int64_t n = units_of(request, 3);
  StepOrder order(request, request.inputs[0].shape, n, 4, 9);
  Scratch scratch(request, order, {n, n, n, 4 * n}, StateWeight(request, 3));
  return over_chunks(
      request, std::move(order), std::move(scratch), [n](const ChunkRun& run, auto array) {
        float *dh = array(0), *dc = array(1), *back = array(2), *d = array(3);
        run.load(1, dh);
        run.load(2, dc);
        for (int64_t step = run.order.steps - 1; step >= 0; --step) {
          run.for_rows(
              step,
              [&](int64_t row, int64_t place) {
                lstm_gates_grad(input<float>(run.buffers, 7) + place * 4 * n,
                                input<float>(run.buffers, 8) + place * n,
                                run.before(input<float>(run.buffers, 8), 5, row, step),
                                input<float>(run.buffers, 0) + place * n, dh + row * n, n,
                                dc + row * n, d + row * 4 * n);
                store_floats(run.result(0), place, d + row * 4 * n, 4 * n);
                store_floats(run.result(1), place,
                             run.before(input<float>(run.buffers, 6), 4, row, step), n);
              },
              [&](int64_t row, int64_t place) {
                clear(d + row * 4 * n, 4 * n);
                store_zeros(run.result(0), place, 4 * n);
                store_zeros(run.result(1), place, n);
              });
          if (!run.any(step)) continue;
          multiply(run.rows.count, n, 4 * n, d, 4 * n, run.weight, back, n);
          run.for_active(
              step, [&](int64_t row, int64_t) { copy_floats(back + row * n, n, dh + row * n); });
        }
        run.save(dh, 2);
        run.save(dc, 3);
      });
}

/// gates, weight, bias, h0, lengths -> out, h, gates
Kernel prepare_gru_steps(const Request& request) {
  const int64_t n = units_of(request, 1);
  const bool linear = request.step.attributes.get<bool>("linear_before_reset");
  StepOrder order(request, request.inputs[0].shape, n, 3, 4);
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
          run.for_rows(
              step,
              [&](int64_t row, int64_t place) {
                float* own = w + row * 4 * n;
                if (linear)
                  gru_gates(x(place), bias, own, n, h + row * n);
                else
                  gru_update(x(place), bias, own, n, h + row * n);
                store_floats(run.result(0), place, h + row * n, n);
                store_floats(run.result(2), place, own, saved);
              },
              [&](int64_t, int64_t place) {
                store_zeros(run.result(0), place, n);
                store_zeros(run.result(2), place, saved);
              });
        }
        run.save(h, 1);
      });
}

/// dy, dh, weight, h0, out, gates, lengths -> dgates, previous, dh0, hidden
Kernel prepare_gru_steps_grad(const Request& request) {
  const int64_t n = units_of(request, 2);
  const bool linear = request.step.attributes.get<bool>("linear_before_reset");
  StepOrder order(request, request.inputs[0].shape, n, 3, 6);
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

/// gates, weight, h0, lengths -> out, h
Kernel prepare_rnn_steps(const Request& request) {
  const int64_t n = units_of(request, 1);
  StepOrder order(request, request.inputs[0].shape, n, 1, 3);
  Scratch scratch(request, order, {n, n}, StateWeight(request, 1, order.steps));
  return over_chunks(
      request, std::move(order), std::move(scratch),
      [n, advance = is_relu(request) ? relu_step : tanh_step](const ChunkRun& run, auto array) {
        float *h = array(0), *w = array(1);
        run.load(2, h);
        for (int64_t step = 0; step < run.order.steps; ++step) {
          if (run.any(step)) multiply(run.rows.count, n, n, h, n, run.weight, w, n);
          run.for_rows(
              step,
              [&](int64_t row, int64_t place) {
                advance(input<float>(run.buffers, 0) + place * n, w + row * n, n, h + row * n);
                store_floats(run.result(0), place, h + row * n, n);
              },
              [&](int64_t, int64_t place) { store_zeros(run.result(0), place, n); });
        }
        run.save(h, 1);
      });
}

/// dy, dh, weight, h0, out, lengths -> dgates, previous, dh0
Kernel prepare_rnn_steps_grad(const Request& request) {
  const int64_t n = units_of(request, 2);
  StepOrder order(request, request.inputs[0].shape, n, 1, 5);
  Scratch scratch(request, order, {n, n, n}, StateWeight(request, 2));
  return over_chunks(
      request, std::move(order), std::move(scratch),
      [n, retreat = is_relu(request) ? relu_step_grad : tanh_step_grad](const ChunkRun& run,
                                                                        auto array) {
        float *dh = array(0), *d = array(1), *back = array(2);
        run.load(1, dh);
        for (int64_t step = run.order.steps - 1; step >= 0; --step) {
          run.for_rows(
              step,
              [&](int64_t row, int64_t place) {
                retreat(input<float>(run.buffers, 4) + place * n,
                        input<float>(run.buffers, 0) + place * n, dh + row * n, n, d + row * n);
                store_floats(run.result(0), place, d + row * n, n);
                store_floats(run.result(1), place,
                             run.before(input<float>(run.buffers, 4), 3, row, step), n);
              },
              [&](int64_t row, int64_t place) {
                clear(d + row * n, n);
                store_zeros(run.result(0), place, n);
                store_zeros(run.result(1), place, n);
              });
          if (!run.any(step)) continue;
          multiply(run.rows.count, n, n, d, n, run.weight, back, n);
          run.for_active(
              step, [&](int64_t row, int64_t) { copy_floats(back + row * n, n, dh + row * n); });
        }
        run.save(dh, 2);
      });
}

}  // namespace

std::span<const KernelEntry> recurrent() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "lstm_steps", .prepare = prepare_lstm_steps, .generates_code = true},
      {.op = "lstm_steps_grad", .prepare = prepare_lstm_steps_grad, .generates_code = true},
      {.op = "gru_steps", .prepare = prepare_gru_steps, .generates_code = true},
      {.op = "gru_steps_grad", .prepare = prepare_gru_steps_grad, .generates_code = true},
      {.op = "rnn_steps", .prepare = prepare_rnn_steps, .generates_code = true},
      {.op = "rnn_steps_grad", .prepare = prepare_rnn_steps_grad, .generates_code = true},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
