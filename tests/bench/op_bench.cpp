// Milliseconds of one call of an op on the CPU backend, forward alone and with its gradients:
// `op_bench THREADS CALL...`, calls as ops write their examples ("softmax(f32[8,10]) axis=1").
// tests/bench/op_bench.py puts PyTorch beside it. Figures, never a pass or fail.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "runtime/cpu/backend/backend.h"
#include "tests/support/example.h"

namespace flow {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Floats in [-1, 1), integers below 10, coins.
void fill_inputs(exec::Program& program, const plan::Job& job) {
  std::mt19937 random(1);
  for (const plan::Input& input : job.inputs) {
    const plan::Tensor& tensor = job[input.tensor];
    std::byte* bytes = program.input(input.tensor, 0).data();
    for (int64_t i = 0; i < tensor.shape.elements(); ++i) switch (tensor.dtype) {
        case DType::kFloat32:
          reinterpret_cast<float*>(bytes)[i] = static_cast<float>(random() % 2048) / 1024 - 1;
          break;
        case DType::kInt32:
          reinterpret_cast<int32_t*>(bytes)[i] = static_cast<int32_t>(random() % 10);
          break;
        case DType::kInt64:
          reinterpret_cast<int64_t*>(bytes)[i] = static_cast<int64_t>(random() % 10);
          break;
        default:
          bytes[i] = static_cast<std::byte>(random() % 2);
      }
  }
}

/// The median time of a launch, over a quarter of a second.
double milliseconds(const plan::Job& job, int threads) {
  exec::PrepareOptions options;
  options.threads = threads;
  const auto backend = cpu::make_backend();
  const auto program = backend->prepare(job, options);
  fill_inputs(*program, job);
  exec::Call call;
  std::vector<double> times;
  const double end = seconds() + 0.25;
  while (times.size() < 5 || seconds() < end) {
    const double start = seconds();
    program->launch(call, 0, 0);
    program->wait(0);
    ++call.step;
    times.push_back(seconds() - start);
  }
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return 1e3 * times[times.size() / 2];
}

}  // namespace
}  // namespace flow

int main(int argc, char** argv) {
  using namespace flow;
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0;
  for (int i = 2; i < argc; ++i) {
    const std::string call = argv[i];
    const double forward = milliseconds(test::job_of_example(call, false), threads);
    const bool differentiable = test::has_gradient(call, false);
    const double both = differentiable
                            ? milliseconds(test::gradient_job_of_example(call, false), threads)
                            : forward;
    fmt::print("{:.6f} {:.6f}\n", forward, both);
  }
}
