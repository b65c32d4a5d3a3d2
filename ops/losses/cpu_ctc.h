// CPU kernels of connectionist temporal classification for float32 and float64. Samples are
// computed on several threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/core/cpu_labels.h"
#include "ops/losses/problem.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

template <typename T>
using CtcSample = ops::CtcSample<T, const int64_t*>;

/// Returns the loss of a sample. `row` has room for the states of the sample.
template <typename T>
double ctc_loss(const CtcSample<T>& sample, double* row) {
  for (int64_t t = 0; t < sample.frames; ++t)
    for (int64_t s = sample.states; s-- > 0;) row[s] = sample.up_to(t, s, row);
  return sample.loss(row);
}

/// Computes the gradient of a sample's log-probabilities, (frames of the batch, classes). `table`
/// has room for the states of all frames and of one more. REQUIRES: `dx` contains zeros.
template <typename T>
void ctc_gradient(const CtcSample<T>& sample, double dy, double* table, T* dx) {
  const int64_t frames = sample.frames, states = sample.states;
  if (frames == 0) return;
  for (int64_t t = 0; t < frames; ++t)
    for (int64_t s = 0; s < states; ++s)
      table[t * states + s] = sample.up_to(t, s, table + std::max<int64_t>(0, t - 1) * states);
  const double loss = sample.loss(table + (frames - 1) * states);
  if (std::isinf(loss)) return;
  double* behind = table + frames * states;
  for (int64_t t = frames; t-- > 0;) {
    for (int64_t s = 0; s < states; ++s) behind[s] = sample.behind(t, s, behind);
    for (int64_t s = 0; s < states; ++s) {
      T& d = dx[t * sample.classes + sample.class_of[s]];
      d = static_cast<T>(static_cast<double>(d) -
                         dy * std::exp(table[t * states + s] + behind[s] + loss));
    }
  }
}

/// The sizes and dtypes of the operands that both kernels read.
struct CtcOperands {
  ops::CtcSizes sizes;
  DType labels, label_lengths, input_lengths;

  explicit CtcOperands(const Request& request)
      : sizes(ops::ctc_sizes(request)),
        labels(request.inputs[0].dtype),
        label_lengths(request.inputs[2].dtype),
        input_lengths(request.inputs[3].dtype) {}

  /// Returns the number of threads that work in parallel, each with separate memory.
  int64_t workers(int threads) const { return std::min<int64_t>(threads, sizes.samples); }

  /// Returns sample i. `class_of` has room for the classes of all states.
  template <typename T>
  CtcSample<T> sample(const Buffers& buffers, int64_t i, int64_t* class_of) const {
    const auto length = [&](DType dtype, size_t operand, int64_t most) {
      return ops::usable_length(integer_at(dtype, buffers.inputs[operand], i), most);
    };
    const int64_t states = 2 * length(label_lengths, 2, sizes.labels) + 1;
    for (int64_t s = 0; s < states; ++s) {
      const int64_t at = i * sizes.labels + s / 2;
      class_of[s] = s % 2 == 0
                        ? sizes.blank
                        : ops::usable_class(integer_at(labels, buffers.inputs[0], at), sizes);
    }
    return {input<T>(buffers, 1) + i * sizes.frames * sizes.classes, sizes.classes,
            length(input_lengths, 3, sizes.frames), states, class_of};
  }
};

template <typename T>
Kernel ctc_kernel(const Request& request, int threads) {
  const CtcOperands operands(request);
  const int64_t states = operands.sizes.states();
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(operands.workers(threads) * states * 2) * sizeof(double);
  kernel.launch = [=, zero = request.step.attributes.get<bool>("zero_infinity")](
                      const Buffers& buffers, const CallState&) {
    parallel_for(threads, operands.sizes.samples, [&](int64_t i, int worker) {
      double* row = reinterpret_cast<double*>(buffers.workspace) + worker * states * 2;
      auto* classes = reinterpret_cast<int64_t*>(row + states);
      const double loss = ctc_loss(operands.sample<T>(buffers, i, classes), row);
      output<T>(buffers, 0)[i] = static_cast<T>(zero && std::isinf(loss) ? 0 : loss);
    });
  };
  // Checks run in the order of the operands.
  kernel = checked(request, 3, operands.sizes.frames + 1, std::move(kernel));
  kernel = checked(request, 2, operands.sizes.labels + 1, std::move(kernel));
  return checked(request, 0, operands.sizes.classes, std::move(kernel));
}

template <typename T>
Kernel ctc_grad_kernel(const Request& request, int threads) {
  const CtcOperands operands(request);
  const int64_t states = operands.sizes.states(), frames = operands.sizes.frames;
  const int64_t room = states * (frames + 2);
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(operands.workers(threads) * room) * sizeof(double);
  kernel.launch = [=](const Buffers& buffers, const CallState&) {
    parallel_for(threads, operands.sizes.samples, [&](int64_t i, int worker) {
      double* table = reinterpret_cast<double*>(buffers.workspace) + worker * room;
      auto* classes = reinterpret_cast<int64_t*>(table + states * (frames + 1));
      const int64_t elements = frames * operands.sizes.classes;
      T* dx = output<T>(buffers, 0) + i * elements;
      std::fill_n(dx, elements, T{0});
      ctc_gradient(operands.sample<T>(buffers, i, classes),
                   static_cast<double>(input<T>(buffers, 4)[i]), table, dx);
    });
  };
  return kernel;
}

}  // namespace flow::cpu
