// resize and its gradient by flow's kernels, beside oneDNN's resampling on the same buffers.
// `resize_bench THREADS CALL...`, calls as "resize(f32[16,64,64,64]) scale=2 mode=bilinear", of
// mode nearest or bilinear. A line for each layout and pass: the milliseconds of both, the least of
// runs in turn, and the largest difference of their results.
#include <fmt/format.h>
#include <omp.h>
#include <dnnl.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/parallel.h"
#include "tests/support/example.h"

namespace flow {
namespace {

using dnnl::memory;

constexpr size_t kLine = 64;  // bytes

/// Floats at the start of a cache line.
class Floats {
 public:
  explicit Floats(size_t count) : values_(count + kLine / sizeof(float)) {
    for (size_t i = 0; i < values_.size(); ++i)
      values_[i] = static_cast<float>(std::sin(static_cast<double>(i)));
  }
  float* data() {
    const auto address = reinterpret_cast<uintptr_t>(values_.data());
    return values_.data() + (kLine - address % kLine) % kLine / sizeof(float);
  }

 private:
  std::vector<float> values_;
};

double milliseconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

memory::desc describe(const Shape& shape, cpu::Layout layout) {
  return {{shape[0], shape[1], shape[2], shape[3]},
          memory::data_type::f32,
          layout == cpu::Layout::kPlain ? memory::format_tag::nchw : memory::format_tag::nhwc};
}

/// One pass in one layout.
class Contest {
 public:
  Contest(const plan::Job& job, const plan::Step& step, cpu::Layout layout, int threads)
      : from_(job[step.inputs[0]].shape),
        to_(job[step.outputs[0]].shape),
        in_(static_cast<size_t>(from_.elements())),
        ours_(static_cast<size_t>(to_.elements())),
        theirs_(static_cast<size_t>(to_.elements())) {
    prepare_ours(step, layout, threads);
    prepare_theirs(step, describe(from_, layout), describe(to_, layout));
  }

  void run() {
    double ours = std::numeric_limits<double>::infinity(), theirs = ours;
    for (int i = 0; i < kRuns; ++i) {
      ours = std::min(ours, milliseconds(run_ours_));
      theirs = std::min(theirs, milliseconds(run_theirs_));
    }
    float difference = 0;
    for (int64_t i = 0; i < to_.elements(); ++i)
      difference = std::max(difference, std::abs(ours_.data()[i] - theirs_.data()[i]));
    fmt::print("flow {:8.2f} ms   oneDNN {:8.2f} ms ({})   difference {:.1e}\n", ours, theirs,
               library_, difference);
  }

 private:
  static constexpr int kRuns = 25;

  void prepare_ours(const plan::Step& step, cpu::Layout layout, int threads) {
    const cpu::SingleThreadedLibraries preparing;
    const auto* entry = cpu::find_kernel(cpu::fast_kernels(), step.op->name);
    cpu::Kernel kernel = entry->prepare({{.step = step,
                                          .inputs = {{{"in", DType::kFloat32, from_}, layout}},
                                          .outputs = {{{"out", DType::kFloat32, to_}, layout}}},
                                         threads});
    workspace_ = Floats(kernel.workspace / sizeof(float));
    run_ours_ = [this, launch = std::move(kernel.launch)] {
      const cpu::SingleThreadedLibraries running;
      std::byte* in = reinterpret_cast<std::byte*>(in_.data());
      std::byte* out = reinterpret_cast<std::byte*>(ours_.data());
      launch({.inputs = {&in, 1},
              .outputs = {&out, 1},
              .epilogue_operands = {},
              .workspace = reinterpret_cast<std::byte*>(workspace_.data())},
             {});
    };
  }

  void prepare_theirs(const plan::Step& step, const memory::desc& from, const memory::desc& to) {
    const auto mode = step.attributes.get<std::string>("mode") == "nearest"
                          ? dnnl::algorithm::resampling_nearest
                          : dnnl::algorithm::resampling_linear;
    const bool backward = step.op->name == "resize_grad";
    const dnnl::resampling_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, mode, backward ? to : from, backward ? from : to},
        engine_);
    if (backward)
      bind(dnnl::resampling_backward::primitive_desc({mode, to, from}, engine_, forward),
           DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC, from, to);
    else
      bind(forward, DNNL_ARG_SRC, DNNL_ARG_DST, from, to);
  }

  template <typename Description>
  void bind(const Description& description, int in, int out, const memory::desc& from,
            const memory::desc& to) {
    library_ = description.impl_info_str();
    run_theirs_ = [this, primitive = dnnl::primitive(description.get()), in, out,
                   x = memory(from, engine_, in_.data()),
                   y = memory(to, engine_, theirs_.data())]() mutable {
      primitive.execute(stream_, {{in, x}, {out, y}});
      stream_.wait();
    };
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  Shape from_, to_;
  Floats in_, ours_, theirs_, workspace_{0};
  std::function<void()> run_ours_, run_theirs_;
  std::string library_;
};

void run(const std::string& call, int threads) {
  const plan::Job job = test::gradient_job_of_example(call, false);
  for (const cpu::Layout layout : {cpu::Layout::kPlain, cpu::Layout::kChannelsLast}) {
    for (const plan::Step& step : job.steps) {
      if (step.op->name != "resize" && step.op->name != "resize_grad") continue;
      fmt::print("{} {:11} {:13}  ", call, step.op->name,
                 layout == cpu::Layout::kPlain ? "plain" : "channels last");
      Contest(job, step, layout, threads).run();
    }
  }
}

}  // namespace
}  // namespace flow

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  omp_set_num_threads(threads);
  for (int i = 2; i < argc; ++i) flow::run(argv[i], threads);
}
