// Steps a second of the hand-made training jobs on the CPU backend: `step_bench [threads]`.
// Figures, never a pass or fail; gemm_roof says what the machine gives.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>

#include "runtime/cpu/backend/backend.h"
#include "tests/support/job_builder.h"

namespace flow {
namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The median and the least time of one run of f, over some two seconds.
std::pair<double, double> time_of(const std::function<void()>& f) {
  std::vector<double> times;
  const double end = seconds() + 2;
  while (times.size() < 5 || seconds() < end) {
    const double start = seconds();
    f();
    times.push_back(seconds() - start);
  }
  std::ranges::sort(times);
  return {times[times.size() / 2], times[0]};
}

void fill_inputs(exec::Program& program, const plan::Job& job) {
  std::mt19937 random(1);
  for (const plan::Input& input : job.inputs) {
    const plan::Tensor& tensor = job[input.tensor];
    std::byte* bytes = program.input(input.tensor, 0).data();
    for (int64_t i = 0; i < tensor.shape.elements(); ++i) {
      if (tensor.dtype == DType::kInt32)
        reinterpret_cast<int32_t*>(bytes)[i] = static_cast<int32_t>(random() % 10);
      else
        reinterpret_cast<float*>(bytes)[i] = static_cast<float>(random() % 256) / 255;
    }
  }
  for (const plan::Variable& variable : job.variables) {
    Array value(DType::kFloat32, job[variable.tensor].shape);
    for (float& element : value.as<float>())
      element = (static_cast<float>(random() % 2001) - 1000) / 10000;
    program.write_variable(variable.tensor, value.view());
  }
}

void bench(const char* name, const plan::Job& job, int threads) {
  exec::PrepareOptions options;
  options.threads = threads;
  const auto backend = cpu::make_backend();
  const double start = seconds();
  const auto program = backend->prepare(job, options);
  const double prepared = seconds() - start;
  fill_inputs(*program, job);
  exec::Call call;
  call.learning_rate = 0.001;
  const auto [median, least] = time_of([&] {
    program->launch(call, 0, 0);
    program->wait(0);
    ++call.step;
  });
  fmt::print(
      "{:<28} {:>9.1f} steps/s (median), {:>9.1f} (best), {} threads, prepared in {:.3f} s, "
      "{:.1f} MiB arena\n",
      name, 1 / median, 1 / least, program->threads(), prepared,
      static_cast<double>(program->memory().arena) / (1 << 20));
}

}  // namespace
}  // namespace flow

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 0;
  flow::bench("lenet, batch 100", flow::test::lenet_training(100), threads);
  flow::bench("mlp 784-512-10, batch 100", flow::test::mlp_training(100, 512), threads);
  flow::bench("mlp 784-32-10, batch 32", flow::test::mlp_training(32, 32), threads);
}
