// Kernels of connectionist temporal classification, of float32 and of float64.
#pragma once

#include <algorithm>

#include "ops/core/cpu_labels.h"
#include "runtime/cpu/loops/ctc.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {

/// What both kernels read.
struct CtcOperands {
  CtcSizes sizes;
  DType labels, label_lengths, input_lengths;

  explicit CtcOperands(const Request& request)
      : sizes{request.inputs[1].shape[0], request.inputs[0].shape[1], request.inputs[1].shape[1],
              request.inputs[1].shape[2], request.step.attributes.get<int64_t>("blank")},
        labels(request.inputs[0].dtype),
        label_lengths(request.inputs[2].dtype),
        input_lengths(request.inputs[3].dtype) {}

  /// How many threads work at once, each with memory of its own.
  int64_t workers(int threads) const { return std::min<int64_t>(threads, sizes.samples); }

  template <typename T>
  CtcSample<T> sample(const Buffers& buffers, int64_t i, int64_t* class_of) const {
    return {input<T>(buffers, 1) + i * sizes.frames * sizes.classes,
            sizes,
            integer_at(label_lengths, buffers.inputs[2], i),
            integer_at(input_lengths, buffers.inputs[3], i),
            class_of,
            [&](int64_t k) { return integer_at(labels, buffers.inputs[0], i * sizes.labels + k); }};
  }
};

template <typename T>
Kernel ctc_kernel(const Request& request, int threads) {
  const CtcOperands operands(request);
  const int64_t states = operands.sizes.states();
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(operands.workers(threads) * states * 2) * sizeof(double);
  kernel.launch =
      [=, labels = LabelCheck(request, request.inputs[0], operands.sizes.classes),
       label_lengths = LabelCheck(request, request.inputs[2], operands.sizes.labels + 1),
       input_lengths = LabelCheck(request, request.inputs[3], operands.sizes.frames + 1),
       zero = request.step.attributes.get<bool>("zero_infinity")](const Buffers& buffers,
                                                                  const CallState& state) {
        labels.run(buffers.inputs[0], state);
        label_lengths.run(buffers.inputs[2], state);
        input_lengths.run(buffers.inputs[3], state);
        parallel_for(threads, operands.sizes.samples, [&](int64_t i, int worker) {
          double* row = reinterpret_cast<double*>(buffers.workspace) + worker * states * 2;
          auto* classes = reinterpret_cast<int64_t*>(row + states);
          const double loss = ctc_loss(operands.sample<T>(buffers, i, classes), row);
          output<T>(buffers, 0)[i] = static_cast<T>(zero && std::isinf(loss) ? 0 : loss);
        });
      };
  return kernel;
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
      ctc_gradient(operands.sample<T>(buffers, i, classes), operands.sizes.classes,
                   static_cast<double>(input<T>(buffers, 4)[i]), table, dx);
    });
  };
  return kernel;
}

}  // namespace flow::cpu
