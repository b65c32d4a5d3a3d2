// Products of bfloat16 matrices, summed in float32.
#pragma once

#include <dnnl.hpp>

#include <cstdint>
#include <vector>

namespace flow::cpu {

/// Products out[m, n] = op(a)[m, k] op(b)[k, n] of bfloat16 matrices in row-major order, of a few
/// sizes. Each product runs on one thread.
class LowPrecisionProducts {
 public:
  /// The distances in elements between the rows of a, b and out in memory.
  struct Strides {
    int64_t a, b, out;
  };

  /// REQUIRES: A SingleThreadedLibraries object exists.
  LowPrecisionProducts(int workers, bool transpose_a, bool transpose_b, Strides strides);

  /// Prepares products of this size, which are added to out if `accumulate` is set. Returns false
  /// if the library has no product of this size that is known to run wherever the library claims
  /// it.
  bool add(int64_t m, int64_t n, int64_t k, bool accumulate = false);

  /// REQUIRES: The size was added. Each worker is used by one thread at a time.
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
