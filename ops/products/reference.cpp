// Reference kernel of matrix products whose leading dimensions broadcast. Sums are computed in
// double.
#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

/// out [m, n] = a [m, k] times b [k, n]. Each operand may be stored transposed.
struct Product {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

/// Computes row i of the product in double.
template <typename T>
void multiply_row(const Product& p, const T* a, const T* b, int64_t i, double* sums) {
  const auto a_at = [&](int64_t k) {
    return static_cast<double>(p.transpose_a ? a[k * p.m + i] : a[i * p.k + k]);
  };
  std::fill_n(sums, p.n, 0.0);
  if (p.transpose_b) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = 0; k < p.k; ++k) sum += a_at(k) * static_cast<double>(b[j * p.k + k]);
      sums[j] = sum;
    }
    return;
  }
  for (int64_t k = 0; k < p.k; ++k) {
    const double factor = a_at(k);
    for (int64_t j = 0; j < p.n; ++j) sums[j] += factor * static_cast<double>(b[k * p.n + j]);
  }
}

/// Returns the dimensions before the matrix.
Shape leading(const Shape& shape) { return shape.first(shape.rank() - 2); }

Kernel prepare_matmul(const Request& request) {
  const Shape &a = request.inputs[0].shape, &b = request.inputs[1].shape,
              &out = request.outputs[0].shape;
  const plan::Attributes& attributes = request.step.attributes;
  Product p{out[out.rank() - 2], out[out.rank() - 1], 0, attributes.get<bool>("transpose_a"),
            attributes.get<bool>("transpose_b")};
  p.k = a[a.rank() - (p.transpose_a ? 2 : 1)];
  const Shape products = leading(out), a_leading = leading(a), b_leading = leading(b);
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(request.threads * p.n) * sizeof(double);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
      parallel_for(threads, products.elements() * p.m, [&](int64_t row, int worker) {
        double* sums = reinterpret_cast<double*>(buffers.workspace) + worker * p.n;
        const int64_t product = row / p.m;
        multiply_row(p,
                     input<T>(buffers, 0) + operand_index(products, product, a_leading) * p.m * p.k,
                     input<T>(buffers, 1) + operand_index(products, product, b_leading) * p.k * p.n,
                     row % p.m, sums);
        for (int64_t j = 0; j < p.n; ++j)
          output<T>(buffers, 0)[row * p.n + j] = static_cast<T>(sums[j]);
      });
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> products() {
  static constexpr KernelEntry kKernels[] = {
      {"matmul", prepare_matmul},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
