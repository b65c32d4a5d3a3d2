// Recurrent layers as their formulas say, with weights packed in an order of its own, as cuDNN
// packs them in one of its own. Compiled with FLOW_CUDA_ON_CPU.
#include <algorithm>
#include <cmath>
#include <vector>

#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/cuda/naive_loops.h"

namespace flow::cuda {
namespace {

using test::Access;
using Cell = RecurrentSpec::Cell;

bool has(const RecurrentSpec& spec, WeightPart::Tensor tensor) {
  return tensor == WeightPart::kInputBias       ? spec.input_bias
         : tensor == WeightPart::kRecurrentBias ? spec.recurrent_bias
                                                : true;
}

/// Elements of a row of one gate.
int64_t width_of(const RecurrentSpec& spec, WeightPart::Tensor tensor) {
  return tensor == WeightPart::kInput       ? spec.features
         : tensor == WeightPart::kRecurrent ? spec.units
                                            : 1;
}

/// Calls visit(tensor, gate, place, elements) in the order of the buffer: the last gate first, what
/// belongs to h before what belongs to x, and an element between all of them. Returns how many
/// elements the buffer has.
template <typename Visit>
int64_t for_each_part(const RecurrentSpec& spec, Visit visit) {
  int64_t place = 0;
  for (int64_t gate = spec.gates() - 1; gate >= 0; --gate) {
    for (const auto tensor : {WeightPart::kRecurrentBias, WeightPart::kRecurrent,
                              WeightPart::kInputBias, WeightPart::kInput}) {
      if (!has(spec, tensor)) continue;
      const int64_t elements = spec.units * width_of(spec, tensor);
      visit(tensor, gate, place, elements);
      place += elements + 1;
    }
  }
  return place;
}

/// What the forward pass keeps for each unit of a row in a step: gates, and c or W h + b of the new
/// gate. The gradients write those of the gates there.
int64_t kept_of(const RecurrentSpec& spec) {
  return spec.cell == Cell::kLstm ? 5 : spec.cell == Cell::kGru ? 4 : 1;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// A layer with buffers of T.
template <typename T>
class NaiveLayer {
 public:
  NaiveLayer(const RecurrentSpec& spec, const RecurrentBuffers& buffers)
      : spec_(spec), b_(buffers), places_(4 * static_cast<size_t>(spec.gates())) {
    weights_ = for_each_part(spec, [&](WeightPart::Tensor tensor, int64_t gate, int64_t place,
                                       int64_t) { places_[index(tensor, gate)] = place; });
  }

  void forward() const {
    note_operands(Access::kWrite);
    const int64_t n = spec_.units;
    for (int64_t row = 0; row < spec_.rows; ++row) {
      std::vector<double> h(first(b_.h0, row), first(b_.h0, row) + n), c(h.size());
      if (b_.c0) std::copy_n(first(b_.c0, row), n, c.begin());
      for (int64_t step = 0; step < spec_.steps; ++step) h = make_step(row, step, h, c);
      if (b_.h) std::copy(h.begin(), h.end(), as<T>(b_.h) + row * n);
      if (b_.c) std::copy(c.begin(), c.end(), as<T>(b_.c) + row * n);
    }
  }

  void backward() const {
    note_operands(Access::kRead);
    note(as<T>(b_.dy), all(spec_.units), Access::kRead);
    note(as<T>(b_.dx), all(spec_.features), Access::kWrite);
    const int64_t n = spec_.units;
    for (int64_t row = 0; row < spec_.rows; ++row) {
      std::vector<double> dh(first(b_.dh, row), first(b_.dh, row) + n), dc(dh.size());
      if (b_.dc) std::copy_n(first(b_.dc, row), n, dc.begin());
      for (int64_t step = spec_.steps - 1; step >= 0; --step) dh = step_back(row, step, dh, dc);
      if (b_.dh0) std::copy(dh.begin(), dh.end(), as<T>(b_.dh0) + row * n);
      if (b_.dc0) std::copy(dc.begin(), dc.end(), as<T>(b_.dc0) + row * n);
    }
    if (b_.dweights) add_weight_gradients();
  }

 private:
  static size_t index(WeightPart::Tensor tensor, int64_t gate) {
    return static_cast<size_t>(gate) * 4 + tensor;
  }
  int64_t all(int64_t width) const { return spec_.rows * spec_.steps * width; }
  int64_t at(int64_t row, int64_t step) const { return row * spec_.steps + step; }
  const T* first(const std::byte* states, int64_t row) const {
    return as<T>(states) + row * spec_.units;
  }
  int64_t place(WeightPart::Tensor tensor, int64_t gate, int64_t unit) const {
    return places_[index(tensor, gate)] + unit * width_of(spec_, tensor);
  }
  double bias(WeightPart::Tensor tensor, int64_t gate, int64_t unit) const {
    return has(spec_, tensor) ? as<T>(b_.weights)[place(tensor, gate, unit)] : 0;
  }
  T& kept(int64_t row, int64_t step, int64_t slot, int64_t unit) const {
    return as<T>(b_.reserve)[(at(row, step) * kept_of(spec_) + slot) * spec_.units + unit];
  }
  double before(int64_t row, int64_t step, int64_t unit) const {
    return step == 0 ? first(b_.h0, row)[unit]
                     : as<T>(b_.y)[at(row, step - 1) * spec_.units + unit];
  }

  /// `results`: how y and the reserve are used.
  void note_operands(Access results) const {
    note(as<T>(b_.x), all(spec_.features), Access::kRead);
    note(as<T>(b_.weights), weights_, Access::kRead);
    note(as<T>(b_.y), all(spec_.units), results);
    note(as<T>(b_.reserve), all(spec_.units) * kept_of(spec_), Access::kWrite);
  }

  double of_input(int64_t row, int64_t step, int64_t gate, int64_t unit) const {
    const T* weight = as<T>(b_.weights) + place(WeightPart::kInput, gate, unit);
    const T* x = as<T>(b_.x) + at(row, step) * spec_.features;
    double sum = bias(WeightPart::kInputBias, gate, unit);
    for (int64_t i = 0; i < spec_.features; ++i) sum += double{weight[i]} * double{x[i]};
    return sum;
  }
  double of_state(const std::vector<double>& h, int64_t gate, int64_t unit) const {
    const T* weight = as<T>(b_.weights) + place(WeightPart::kRecurrent, gate, unit);
    double sum = bias(WeightPart::kRecurrentBias, gate, unit);
    for (size_t i = 0; i < h.size(); ++i) sum += double{weight[i]} * h[i];
    return sum;
  }

  /// Returns the next h, and replaces c.
  std::vector<double> make_step(int64_t row, int64_t step, const std::vector<double>& h,
                                std::vector<double>& c) const {
    std::vector<double> next(h.size());
    for (int64_t unit = 0; unit < spec_.units; ++unit) {
      const auto sum = [&](int64_t gate) {
        return of_input(row, step, gate, unit) + of_state(h, gate, unit);
      };
      const size_t j = static_cast<size_t>(unit);
      std::vector<double> values;
      if (spec_.cell == Cell::kLstm) {
        values = {sigmoid(sum(0)), sigmoid(sum(1)), std::tanh(sum(2)), sigmoid(sum(3))};
        c[j] = values[1] * c[j] + values[0] * values[2];
        next[j] = values[3] * std::tanh(c[j]);
        values.push_back(c[j]);
      } else if (spec_.cell == Cell::kGru) {
        const double hidden = of_state(h, 2, unit), r = sigmoid(sum(0)), z = sigmoid(sum(1)),
                     n = std::tanh(of_input(row, step, 2, unit) + r * hidden);
        values = {r, z, n, hidden};
        next[j] = (1 - z) * n + z * h[j];
      } else {
        next[j] = std::tanh(sum(0));
      }
      as<T>(b_.y)[at(row, step) * spec_.units + unit] = static_cast<T>(next[j]);
      for (size_t slot = 0; b_.reserve && slot < values.size(); ++slot)
        kept(row, step, static_cast<int64_t>(slot), unit) = static_cast<T>(values[slot]);
    }
    return next;
  }

  /// Returns dh of the step before, and replaces dc by its.
  std::vector<double> step_back(int64_t row, int64_t step, const std::vector<double>& dh,
                                std::vector<double>& dc) const {
    std::vector<double> past(dh.size());  // what goes past the gates
    for (int64_t unit = 0; unit < spec_.units; ++unit) {
      const size_t j = static_cast<size_t>(unit);
      const int64_t own = at(row, step) * spec_.units + unit;
      const double total = dh[j] + as<T>(b_.dy)[own];
      const auto saved = [&](int64_t slot) { return double{kept(row, step, slot, unit)}; };
      std::vector<double> d;
      if (spec_.cell == Cell::kLstm) {
        const double i = saved(0), f = saved(1), g = saved(2), o = saved(3),
                     t = std::tanh(saved(4)), cell = dc[j] + total * o * (1 - t * t);
        const double c_before =
            step == 0 ? double{first(b_.c0, row)[unit]} : double{kept(row, step - 1, 4, unit)};
        d = {cell * g * i * (1 - i), cell * c_before * f * (1 - f), cell * i * (1 - g * g),
             total * t * o * (1 - o)};
        dc[j] = cell * f;
      } else if (spec_.cell == Cell::kGru) {
        const double r = saved(0), z = saved(1), n = saved(2), hidden = saved(3),
                     dn = total * (1 - z) * (1 - n * n);
        d = {dn * hidden * r * (1 - r), total * (before(row, step, unit) - n) * z * (1 - z), dn,
             dn * r};
        past[j] = total * z;
      } else {
        const double y = as<T>(b_.y)[own];
        d = {total * (1 - y * y)};
      }
      for (size_t slot = 0; slot < d.size(); ++slot)
        kept(row, step, static_cast<int64_t>(slot), unit) = static_cast<T>(d[slot]);
    }
    multiply_back(row, step, past);
    return past;
  }

  /// Of the sum of a gate that belongs to h.
  double hidden_gradient(int64_t row, int64_t step, int64_t gate, int64_t unit) const {
    return kept(row, step, spec_.cell == Cell::kGru && gate == 2 ? 3 : gate, unit);
  }

  /// dx, and what is added to dh.
  void multiply_back(int64_t row, int64_t step, std::vector<double>& dh) const {
    std::vector<double> dx(static_cast<size_t>(spec_.features));
    for (int64_t gate = 0; gate < spec_.gates(); ++gate) {
      for (int64_t unit = 0; unit < spec_.units; ++unit) {
        const T *w = as<T>(b_.weights) + place(WeightPart::kInput, gate, unit),
                *r = as<T>(b_.weights) + place(WeightPart::kRecurrent, gate, unit);
        const double d = kept(row, step, gate, unit),
                     dhidden = hidden_gradient(row, step, gate, unit);
        for (size_t i = 0; i < dx.size(); ++i) dx[i] += d * double{w[i]};
        for (size_t i = 0; i < dh.size(); ++i) dh[i] += dhidden * double{r[i]};
      }
    }
    std::ranges::transform(dx, as<T>(b_.dx) + at(row, step) * spec_.features,
                           [](double sum) { return static_cast<T>(sum); });
  }

  void add_weight_gradients() const {
    T* const dweights = as<T>(b_.dweights);
    note(dweights, weights_, Access::kWrite);
    for_each_part(spec_, [&](WeightPart::Tensor tensor, int64_t gate, int64_t first_place,
                             int64_t elements) {
      const bool of_h = tensor == WeightPart::kRecurrent || tensor == WeightPart::kRecurrentBias;
      const int64_t width = width_of(spec_, tensor);
      for (int64_t i = 0; i < elements; ++i) {
        const int64_t unit = i / width, column = i % width;
        double sum = dweights[first_place + i];
        for (int64_t row = 0; row < spec_.rows; ++row) {
          for (int64_t step = 0; step < spec_.steps; ++step) {
            const double d =
                of_h ? hidden_gradient(row, step, gate, unit) : double{kept(row, step, gate, unit)};
            sum += d * factor(tensor, row, step, column);
          }
        }
        dweights[first_place + i] = static_cast<T>(sum);
      }
    });
  }

  /// What a weight is multiplied by.
  double factor(WeightPart::Tensor tensor, int64_t row, int64_t step, int64_t column) const {
    if (tensor == WeightPart::kInput) return as<T>(b_.x)[at(row, step) * spec_.features + column];
    return tensor == WeightPart::kRecurrent ? before(row, step, column) : 1;
  }

  const RecurrentSpec& spec_;
  const RecurrentBuffers& b_;
  std::vector<int64_t> places_;  // of parts in the buffer of weights
  int64_t weights_;              // elements
};

template <typename T>
void naive_recurrent(RecurrentSpec spec, RecurrentBuffers buffers) {
  NaiveLayer<T>(spec, buffers).forward();
}
template <typename T>
void naive_recurrent_grad(RecurrentSpec spec, RecurrentBuffers buffers) {
  NaiveLayer<T>(spec, buffers).backward();
}

}  // namespace

Expected<RecurrentKernel> NaiveLibraries::find(const RecurrentSpec& spec) {
  if (spec.dtype != DType::kFloat32 && spec.dtype != DType::kFloat64)
    return RunError("the plain loops have no recurrent layers in 16 bits");
  const size_t size = size_of(spec.dtype);
  RecurrentKernel kernel;
  kernel.name = "plain loops";
  kernel.reserve = static_cast<size_t>(spec.rows * spec.steps * kept_of(spec) * spec.units) * size;
  const auto add = [&](WeightPart::Tensor tensor, int64_t gate, int64_t place, int64_t elements) {
    kernel.layout.push_back({tensor, static_cast<size_t>(gate * elements) * size,
                             static_cast<size_t>(place) * size,
                             static_cast<size_t>(elements) * size});
  };
  kernel.weights = static_cast<size_t>(for_each_part(spec, add)) * size;
  kernel.try_run = [&driver = driver_, spec](const RecurrentBuffers& b,
                                             Stream stream) -> std::optional<RunError> {
    const bool forward = spec.pass == RecurrentSpec::Pass::kForward;
    FLOW_CHECK(!forward || spec.trains == (b.reserve != nullptr));
    FLOW_CHECK((spec.cell == Cell::kLstm) == (b.c0 != nullptr));
    visit_float(spec.dtype, [&]<typename T>(T) {
      if (forward)
        launch(driver, stream, "naive_recurrent", kOneThread, &naive_recurrent<T>, spec, b);
      else
        launch(driver, stream, "naive_recurrent_grad", kOneThread, &naive_recurrent_grad<T>, spec,
               b);
    });
    return {};
  };
  return kernel;
}

}  // namespace flow::cuda
