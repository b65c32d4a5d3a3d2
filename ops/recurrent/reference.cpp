// Reference kernels of the steps of recurrent layers and of their gradients, computed row by row in
// double.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ops/core/cpu_labels.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

using Numbers = std::span<double>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

constexpr int64_t kMostNumbers = 32;  // the most numbers of a row, for each unit

/// The sizes that rows need. Operand `all` is an array (N, T, ...), and operand `of_weight` is (G
/// H, H).
struct StepSizes {
  StepSizes(const Request& request, size_t all, size_t of_weight, size_t of_lengths)
      : rows(request.inputs[all].shape[0]),
        steps(request.inputs[all].shape[1]),
        units(request.inputs[of_weight].shape[1]),
        weight(of_weight),
        lengths(of_lengths),
        reverse(request.step.attributes.get<bool>("reverse")) {
    if (lengths < request.inputs.size()) check.emplace(request, request.inputs[lengths], steps + 1);
  }

  int64_t rows, steps, units;
  size_t weight, lengths;
  bool reverse;
  std::optional<LabelCheck> check;
};

/// One row in one launch.
template <typename T>
class StepsOfRow {
 public:
  StepsOfRow(const StepSizes& sizes, const Buffers& buffers, int64_t row)
      : sizes_(sizes),
        buffers_(buffers),
        row_(row),
        free_(reinterpret_cast<double*>(buffers.workspace)),
        kept_(free_) {
    length_ = sizes.check ? std::clamp<int64_t>(
                                integer_at(sizes.check->dtype, buffers.inputs[sizes.lengths], row),
                                0, sizes.steps)
                          : sizes.steps;
  }

  int64_t units() const { return sizes_.units; }
  int64_t length() const { return length_; }
  int64_t row() const { return row_; }
  /// Returns the index of a step in (N, T).
  int64_t place(int64_t step) const {
    return row_ * sizes_.steps + (sizes_.reverse ? length_ - 1 - step : step);
  }

  /// Returns zeros that are valid until the next step begins, or during all steps if no step has
  /// begun.
  Numbers numbers(int64_t width) {
    const Numbers made(free_, static_cast<size_t>(width));
    std::ranges::fill(made, 0.0);
    free_ += width;
    return made;
  }
  /// Numbers created before begin_steps() stay valid during all steps.
  void begin_steps() { kept_ = free_; }
  void begin_step() { free_ = kept_; }

  double in(size_t operand, int64_t i) const { return double_at<T>(buffers_, operand, i); }
  /// Returns row `place` of an operand with rows of this width.
  Numbers row_of(size_t operand, int64_t place, int64_t width) {
    const Numbers made = numbers(width);
    for (int64_t i = 0; i < width; ++i)
      made[static_cast<size_t>(i)] = in(operand, place * width + i);
    return made;
  }
  /// Writes row `place` of a result unless no code reads the result.
  void set_row(size_t result, int64_t place, Numbers values) const {
    if (result >= buffers_.outputs.size() || !buffers_.outputs[result]) return;
    T* to = output<T>(buffers_, result) + place * static_cast<int64_t>(values.size());
    for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<T>(values[i]);
  }
  /// Writes zeros after the row's last step to a result with rows of this width.
  void clear_rest(size_t result, int64_t width) {
    begin_step();
    const Numbers zeros = numbers(width);
    for (int64_t step = length_; step < sizes_.steps; ++step)
      set_row(result, row_ * sizes_.steps + step, zeros);
  }

  /// Returns row k of the weight times h.
  double product(int64_t k, Numbers h) const {
    double sum = 0;
    for (int64_t j = 0; j < units(); ++j)
      sum += in(sizes_.weight, k * units() + j) * h[static_cast<size_t>(j)];
    return sum;
  }
  /// Computes to[j] += the sum over k of d[k] W[first + k, j].
  void add_back(int64_t first, Numbers d, Numbers to) const {
    for (size_t k = 0; k < d.size(); ++k)
      for (size_t j = 0; j < to.size(); ++j)
        to[j] += d[k] * in(sizes_.weight,
                           (first + static_cast<int64_t>(k)) * units() + static_cast<int64_t>(j));
  }

  /// Returns the state before a step: the result of the previous step in operand `all`, or the
  /// initial state in operand `initial`.
  Numbers before(size_t all, size_t initial, int64_t step) {
    return step == 0 ? row_of(initial, row_, units()) : row_of(all, place(step - 1), units());
  }

 private:
  const StepSizes& sizes_;
  const Buffers& buffers_;
  int64_t row_, length_;
  double *free_, *kept_;
};

/// Returns a kernel that calls row_function(StepsOfRow&) for each row.
template <typename RowFunction>
Kernel for_each_row(const Request& request, StepSizes sizes, RowFunction row_function) {
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(kMostNumbers * sizes.units) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [sizes, row_function](const Buffers& buffers, const CallState& state) {
      if (sizes.check) sizes.check->run(buffers.inputs[sizes.lengths], state);
      for (int64_t row = 0; row < sizes.rows; ++row) {
        StepsOfRow<T> steps(sizes, buffers, row);
        row_function(steps);
      }
    };
  });
  return kernel;
}

Kernel prepare_lstm_steps(const Request& request) {
  return for_each_row(request, {request, 0, 1, 4}, [](auto& run) {
    const int64_t n = run.units();
    const Numbers h = run.row_of(2, run.row(), n), c = run.row_of(3, run.row(), n);
    const size_t m = h.size();
    run.begin_steps();
    for (int64_t step = 0; step < run.length(); ++step) {
      run.begin_step();
      const int64_t place = run.place(step);
      const Numbers gates = run.row_of(0, place, 4 * n);
      for (size_t k = 0; k < gates.size(); ++k) {
        gates[k] += run.product(static_cast<int64_t>(k), h);
        gates[k] = k / m == 2 ? std::tanh(gates[k]) : sigmoid(gates[k]);
      }
      for (size_t j = 0; j < m; ++j) {
        c[j] = gates[m + j] * c[j] + gates[j] * gates[2 * m + j];
        h[j] = gates[3 * m + j] * std::tanh(c[j]);
      }
      run.set_row(0, place, h);
      run.set_row(3, place, gates);
      run.set_row(4, place, c);
    }
    run.set_row(1, run.row(), h);
    run.set_row(2, run.row(), c);
    run.clear_rest(0, n);
    run.clear_rest(3, 4 * n);
    run.clear_rest(4, n);
  });
}

Kernel prepare_lstm_steps_grad(const Request& request) {
  return for_each_row(request, {request, 0, 3, 9}, [](auto& run) {
    const int64_t n = run.units();
    const Numbers dh = run.row_of(1, run.row(), n), dc = run.row_of(2, run.row(), n);
    const size_t m = dh.size();
    run.begin_steps();
    for (int64_t step = run.length() - 1; step >= 0; --step) {
      run.begin_step();
      const int64_t place = run.place(step);
      const Numbers dy = run.row_of(0, place, n), gates = run.row_of(7, place, 4 * n);
      const Numbers c = run.row_of(8, place, n), c_before = run.before(8, 5, step);
      const Numbers d = run.numbers(4 * n);
      for (size_t j = 0; j < m; ++j) {
        const double i = gates[j], f = gates[m + j], g = gates[2 * m + j], o = gates[3 * m + j];
        const double total = dh[j] + dy[j], t = std::tanh(c[j]);
        dc[j] += total * o * (1 - t * t);
        d[j] = dc[j] * g * i * (1 - i);
        d[m + j] = dc[j] * c_before[j] * f * (1 - f);
        d[2 * m + j] = dc[j] * i * (1 - g * g);
        d[3 * m + j] = total * t * o * (1 - o);
        dc[j] *= f;
      }
      std::ranges::fill(dh, 0.0);
      run.add_back(0, d, dh);
      run.set_row(0, place, d);
      run.set_row(1, place, run.before(6, 4, step));
    }
    run.set_row(2, run.row(), dh);
    run.set_row(3, run.row(), dc);
    run.clear_rest(0, 4 * n);
    run.clear_rest(1, n);
  });
}

bool resets_linearly(const Request& request) {
  return request.step.attributes.get<bool>("linear_before_reset");
}

Kernel prepare_gru_steps(const Request& request) {
  return for_each_row(request, {request, 0, 1, 4}, [linear = resets_linearly(request)](auto& run) {
    const int64_t n = run.units();
    const Numbers h = run.row_of(3, run.row(), n);
    const size_t m = h.size();
    run.begin_steps();
    for (int64_t step = 0; step < run.length(); ++step) {
      run.begin_step();
      const int64_t place = run.place(step);
      const Numbers x = run.row_of(0, place, 3 * n), bias = run.row_of(2, 0, 3 * n);
      const Numbers gates = run.numbers(linear ? 4 * n : 3 * n), reset = run.numbers(n);
      const auto hidden = [&](size_t k, Numbers state) {
        return run.product(static_cast<int64_t>(k), state) + bias[k];
      };
      for (size_t k = 0; k < 2 * m; ++k) gates[k] = sigmoid(x[k] + hidden(k, h));
      for (size_t j = 0; j < m; ++j) reset[j] = gates[j] * h[j];
      for (size_t j = 0; j < m; ++j) {
        const double q = hidden(2 * m + j, linear ? h : reset);
        gates[2 * m + j] = std::tanh(x[2 * m + j] + (linear ? gates[j] * q : q));
        if (linear) gates[3 * m + j] = q;
      }
      for (size_t j = 0; j < m; ++j)
        h[j] = (1 - gates[m + j]) * gates[2 * m + j] + gates[m + j] * h[j];
      run.set_row(0, place, h);
      run.set_row(2, place, gates);
    }
    run.set_row(1, run.row(), h);
    run.clear_rest(0, n);
    run.clear_rest(2, linear ? 4 * n : 3 * n);
  });
}

Kernel prepare_gru_steps_grad(const Request& request) {
  return for_each_row(request, {request, 0, 2, 6}, [linear = resets_linearly(request)](auto& run) {
    const int64_t n = run.units();
    const Numbers dh = run.row_of(1, run.row(), n);
    const size_t m = dh.size();
    run.begin_steps();
    for (int64_t step = run.length() - 1; step >= 0; --step) {
      run.begin_step();
      const int64_t place = run.place(step);
      const Numbers dy = run.row_of(0, place, n), before = run.before(4, 3, step);
      const Numbers gates = run.row_of(5, place, linear ? 4 * n : 3 * n);
      const Numbers d = run.numbers(3 * n), dn = run.numbers(n), reset = run.numbers(n);
      const Numbers back = run.numbers(n);  // the gradient that goes through W_n
      for (size_t j = 0; j < m; ++j) {
        const double z = gates[m + j], next = gates[2 * m + j], total = dh[j] + dy[j];
        d[m + j] = total * (before[j] - next) * z * (1 - z);
        d[2 * m + j] = total * (1 - z) * (1 - next * next);
        dn[j] = d[2 * m + j] * (linear ? gates[j] : 1);
        dh[j] = total * z;
        reset[j] = gates[j] * before[j];
      }
      run.add_back(2 * n, dn, back);
      for (size_t j = 0; j < m; ++j) {
        const double r = gates[j];
        const double dr = linear ? d[2 * m + j] * gates[3 * m + j] : back[j] * before[j];
        d[j] = dr * r * (1 - r);
        dh[j] += linear ? back[j] : back[j] * r;
      }
      run.add_back(0, d.first(2 * m), dh);
      run.set_row(0, place, d);
      run.set_row(1, place, before);
      if (linear) std::ranges::copy(dn, d.begin() + static_cast<std::ptrdiff_t>(2 * m));
      run.set_row(3, place, linear ? d : reset);
    }
    run.set_row(2, run.row(), dh);
    run.clear_rest(0, 3 * n);
    run.clear_rest(1, n);
    run.clear_rest(3, linear ? 3 * n : n);
  });
}

bool has_relu(const Request& request) {
  return request.step.attributes.get<std::string>("activation") == "relu";
}

/// NaN stays NaN.
double rectified(double x) { return x <= 0 ? 0 : x; }

Kernel prepare_rnn_steps(const Request& request) {
  return for_each_row(request, {request, 0, 1, 3}, [relu = has_relu(request)](auto& run) {
    const int64_t n = run.units();
    const Numbers h = run.row_of(2, run.row(), n);
    run.begin_steps();
    for (int64_t step = 0; step < run.length(); ++step) {
      run.begin_step();
      const int64_t place = run.place(step);
      const Numbers next = run.row_of(0, place, n);
      for (size_t k = 0; k < next.size(); ++k) {
        const double sum = next[k] + run.product(static_cast<int64_t>(k), h);
        next[k] = relu ? rectified(sum) : std::tanh(sum);
      }
      std::ranges::copy(next, h.begin());
      run.set_row(0, place, h);
    }
    run.set_row(1, run.row(), h);
    run.clear_rest(0, n);
  });
}

Kernel prepare_rnn_steps_grad(const Request& request) {
  return for_each_row(request, {request, 0, 2, 5}, [relu = has_relu(request)](auto& run) {
    const int64_t n = run.units();
    const Numbers dh = run.row_of(1, run.row(), n);
    run.begin_steps();
    for (int64_t step = run.length() - 1; step >= 0; --step) {
      run.begin_step();
      const int64_t place = run.place(step);
      const Numbers dy = run.row_of(0, place, n), y = run.row_of(4, place, n), d = run.numbers(n);
      for (size_t j = 0; j < d.size(); ++j) {
        const double slope = relu ? (y[j] > 0 ? 1 : 0) : 1 - y[j] * y[j];
        d[j] = (dh[j] + dy[j]) * slope;
      }
      std::ranges::fill(dh, 0.0);
      run.add_back(0, d, dh);
      run.set_row(0, place, d);
      run.set_row(1, place, run.before(4, 3, step));
    }
    run.set_row(2, run.row(), dh);
    run.clear_rest(0, n);
    run.clear_rest(1, n);
  });
}

}  // namespace

std::span<const KernelEntry> recurrent() {
  static constexpr KernelEntry kKernels[] = {
      {"lstm_steps", prepare_lstm_steps}, {"lstm_steps_grad", prepare_lstm_steps_grad},
      {"gru_steps", prepare_gru_steps},   {"gru_steps_grad", prepare_gru_steps_grad},
      {"rnn_steps", prepare_rnn_steps},   {"rnn_steps_grad", prepare_rnn_steps_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
