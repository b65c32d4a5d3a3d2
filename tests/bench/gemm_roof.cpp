// What this machine's float32 matrix product reaches: oneDNN's, 2048 x 2048 x 2048, best of
// several. Prints one number: GFLOP/s. Usage: gemm_roof THREADS
#include <dnnl.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  omp_set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  constexpr dnnl_dim_t kSize = 2048;
  const std::vector<float> a(kSize * kSize, 0.5f), b(kSize * kSize, 0.25f);
  std::vector<float> c(kSize * kSize);
  double best = 1e9;
  for (int run = 0; run < 6; ++run) {
    const auto start = std::chrono::steady_clock::now();
    dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1.0f, a.data(), kSize, b.data(), kSize, 0.0f,
               c.data(), kSize);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
  }
  std::printf("%.1f\n", 2.0 * kSize * kSize * kSize / best / 1e9);
}
