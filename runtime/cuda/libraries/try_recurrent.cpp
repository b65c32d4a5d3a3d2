// Trials of recurrent layers on made-up numbers.
#include "runtime/cuda/libraries/try_recurrent.h"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/cuda/driver/handles.h"
#include "runtime/cuda/libraries/stopwatch.h"

namespace flow::cuda {
namespace {

/// Operands and results of a layer, in the order of RecurrentBuffers' members.
std::vector<TrialMemory::Part> layer_parts(const RecurrentSpec& spec,
                                           const RecurrentKernel& kernel) {
  const size_t size = size_of(spec.dtype), units = static_cast<size_t>(spec.units) * size,
               rows = static_cast<size_t>(spec.rows), all = rows * static_cast<size_t>(spec.steps),
               state = rows * units, cell = spec.cell == RecurrentSpec::Cell::kLstm ? state : 0,
               x = all * static_cast<size_t>(spec.features) * size;
  std::vector<size_t> bytes = {x, kernel.weights, state, cell, all * units, state, cell};
  if (spec.trains)
    for (const size_t more : {all * units, state, cell, x, state, cell, kernel.weights})
      bytes.push_back(more);
  std::vector<TrialMemory::Part> parts;
  for (const size_t part : bytes) parts.push_back({spec.dtype, part});
  parts.push_back({DType::kUInt8, spec.trains ? kernel.reserve : 0});
  return parts;
}

RecurrentBuffers buffers_in(const TrialMemory& memory, bool trains) {
  RecurrentBuffers b{};
  b.x = memory.part(0), b.weights = memory.part(1), b.h0 = memory.part(2), b.c0 = memory.part(3);
  b.y = memory.part(4), b.h = memory.part(5), b.c = memory.part(6);
  b.reserve = memory.part(trains ? 14 : 7);
  b.workspace = memory.workspace();
  if (!trains) return b;
  b.dy = memory.part(7), b.dh = memory.part(8), b.dc = memory.part(9);
  b.dx = memory.part(10), b.dh0 = memory.part(11), b.dc0 = memory.part(12);
  b.dweights = memory.part(13);
  return b;
}

void run_captured(Driver& driver, Stream stream, const std::function<void()>& put) {
  driver.begin_capture(stream);
  try {
    put();
  } catch (const RunError&) {
    try {
      driver.destroy(driver.end_capture(stream));
    } catch (const RunError&) {
      // The failure that led here is the one to report.
    }
    throw;
  }
  const OwnedGraph graph(driver, driver.end_capture(stream));
  driver.launch(graph.get(), stream);
  driver.synchronize(stream);
}

}  // namespace

std::string try_recurrent(RecurrentSpec spec, Libraries& libraries, Driver& driver) {
  constexpr int64_t kMostRows = 2, kMostSteps = 3;
  spec.rows = std::min(spec.rows, kMostRows);
  spec.steps = std::min(spec.steps, kMostSteps);
  std::vector<RecurrentKernel> kernels;
  for (const auto pass : {RecurrentSpec::Pass::kForward, RecurrentSpec::Pass::kGrad}) {
    if (pass == RecurrentSpec::Pass::kGrad && !spec.trains) continue;
    spec.pass = pass;
    Expected<RecurrentKernel> found = libraries.find(spec);
    if (!found) return found.error().what();
    kernels.push_back(std::move(found).value());
  }
  const OwnedStream stream(driver, driver.create_stream());
  const size_t workspace = std::ranges::max(kernels, {}, &RecurrentKernel::workspace).workspace;
  const TrialMemory memory(driver, stream.get(), layer_parts(spec, kernels[0]), workspace);
  const RecurrentBuffers buffers = buffers_in(memory, spec.trains);
  const auto put = [&] {
    for (const RecurrentKernel& kernel : kernels) kernel.run(buffers, stream.get());
  };
  try {
    put();
    driver.synchronize(stream.get());
    run_captured(driver, stream.get(), put);
  } catch (const RunError& error) {
    return error.what();
  }
  return {};
}

}  // namespace flow::cuda
