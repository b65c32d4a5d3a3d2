// Reference kernels of softmax cross entropy with integer labels and with probabilities, and its
// gradients.
#include <cmath>
#include <limits>

#include "ops/core/cpu_labels.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// The terms of logsumexp(x) = max + log_sum. They are kept separate because adding a large maximum
/// would lose small losses.
struct LogSumExp {
  double max, log_sum;
};

template <typename T>
LogSumExp log_sum_exp_apart(const T* x, int64_t n) {
  const auto max = static_cast<double>(*std::max_element(x, x + n));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i]) - max);
  return {max, std::log(sum)};
}

Kernel prepare_sparse_softmax_cross_entropy_with_logits(const Request& request) {
  const TensorDesc &labels = request.inputs[0], &logits = request.inputs[1];
  const int64_t classes = logits.shape[logits.shape.rank() - 1];
  Kernel kernel;
  visit_float(logits.dtype, [&]<typename T>(T) {
    kernel.launch = [=, check = LabelCheck(request, labels, classes)](const Buffers& buffers,
                                                                      const CallState& state) {
      check.run(buffers.inputs[0], state);
      T* prob = output<T>(buffers, 1);
      for (int64_t row = 0; row < check.rows; ++row) {
        const T* x = input<T>(buffers, 1) + row * classes;
        const LogSumExp total = log_sum_exp_apart(x, classes);
        const int64_t label = integer_at(check.dtype, buffers.inputs[0], row);
        output<T>(buffers, 0)[row] =
            label >= 0 && label < classes
                ? static_cast<T>(total.log_sum + (total.max - static_cast<double>(x[label])))
                : std::numeric_limits<T>::quiet_NaN();
        for (int64_t i = 0; prob && i < classes; ++i)
          prob[row * classes + i] =
              static_cast<T>(std::exp(static_cast<double>(x[i]) - total.max - total.log_sum));
      }
    };
  });
  return kernel;
}

Kernel prepare_sparse_softmax_cross_entropy_with_logits_grad(const Request& request) {
  const TensorDesc &labels = request.inputs[0], &prob = request.inputs[1];
  const int64_t classes = prob.shape[prob.shape.rank() - 1];
  Kernel kernel;
  visit_float(prob.dtype, [&]<typename T>(T) {
    kernel.launch = [=, dtype = labels.dtype, n = prob.shape.elements()](const Buffers& buffers,
                                                                         const CallState&) {
      for (int64_t i = 0; i < n; ++i) {
        const bool hit = integer_at(dtype, buffers.inputs[0], i / classes) == i % classes;
        const auto dy = static_cast<double>(input<T>(buffers, 2)[i / classes]);
        const auto p = static_cast<double>(input<T>(buffers, 1)[i]);
        output<T>(buffers, 0)[i] = static_cast<T>(dy * (p - (hit ? 1.0 : 0.0)));
      }
    };
  });
  return kernel;
}

Kernel prepare_softmax_cross_entropy_with_logits(const Request& request) {
  const Shape& logits = request.inputs[1].shape;
  const int64_t classes = logits[logits.rank() - 1], rows = logits.elements() / classes;
  Kernel kernel;
  visit_float(request.inputs[1].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      T* prob = output<T>(buffers, 1);
      for (int64_t row = 0; row < rows; ++row) {
        const T* z = input<T>(buffers, 0) + row * classes;
        const T* x = input<T>(buffers, 1) + row * classes;
        const LogSumExp total = log_sum_exp_apart(x, classes);
        double loss = 0;
        for (int64_t i = 0; i < classes; ++i) {
          const double below = (total.max - static_cast<double>(x[i])) + total.log_sum;
          loss += static_cast<double>(z[i]) * below;
          if (prob) prob[row * classes + i] = static_cast<T>(std::exp(-below));
        }
        output<T>(buffers, 0)[row] = static_cast<T>(loss);
      }
    };
  });
  return kernel;
}

Kernel prepare_softmax_cross_entropy_with_logits_grad(const Request& request) {
  const Shape& prob = request.inputs[1].shape;
  const int64_t classes = prob[prob.rank() - 1], n = prob.elements();
  Kernel kernel;
  visit_float(request.inputs[1].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      for (int64_t i = 0; i < n; ++i) {
        const T* z = input<T>(buffers, 0) + i / classes * classes;
        double sum = 0;
        for (int64_t k = 0; k < classes; ++k) sum += static_cast<double>(z[k]);
        const auto p = static_cast<double>(input<T>(buffers, 1)[i]);
        const auto dy = static_cast<double>(input<T>(buffers, 2)[i / classes]);
        output<T>(buffers, 0)[i] =
            static_cast<T>(dy * (sum * p - static_cast<double>(z[i % classes])));
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> cross_entropy() {
  static constexpr KernelEntry kKernels[] = {
      {"sparse_softmax_cross_entropy_with_logits",
       prepare_sparse_softmax_cross_entropy_with_logits},
      {"softmax_cross_entropy_with_logits", prepare_softmax_cross_entropy_with_logits},
      {"softmax_cross_entropy_with_logits_grad", prepare_softmax_cross_entropy_with_logits_grad},
      {"sparse_softmax_cross_entropy_with_logits_grad",
       prepare_sparse_softmax_cross_entropy_with_logits_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
