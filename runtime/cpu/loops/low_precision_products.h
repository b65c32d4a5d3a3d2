// Products of bfloat16 matrices, summed in float32.
#pragma once

#include <dnnl.hpp>

#include <cstdint>
#include <vector>

namespace flow::cpu {

/// Products out[m, n] = op(a)[m, k] op(b)[k, n] of bfloat16 matrices in row-major order, of a few
/// sizes, each run by one thread.
class LowPrecisionProducts {
 public:
  /// Rows of a, b and out as they are stored lie that many elements apart.
  struct Strides {
    int64_t a, b, out;
  };

  /// REQUIRES: SingleThreadedLibraries.
  LowPrecisionProducts(int workers, bool transpose_a, bool transpose_b, Strides strides);

  /// Makes products of that size ready; `accumulate`: for adding to out. False where the library
  /// has none that is known to run wherever it says so.
  bool add(int64_t m, int64_t n, int64_t k, bool accumulate = false);

  /// REQUIRES: a size that was added. One thread for each worker.
  void run(int worker, int64_t m, int64_t n, int64_t k, const uint16_t* a, const uint16_t* b,
           float* out, bool accumulate = false);

 private:
  struct Size {
    int64_t m, n, k;
    bool accumulate;
    friend bool operator==(const Size&, const Size&) = default;
  };
  struct Arguments {
    dnnl::memory a, b, out;
    std::vector<dnnl_exec_arg_t> list;
  };
  struct Product {
    Size size;
    dnnl::primitive primitive;
    std::vector<Arguments> of_worker;
  };

  int workers_;
  bool transpose_a_, transpose_b_;
  Strides strides_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<Product> products_;
};

}  // namespace flow::cpu
