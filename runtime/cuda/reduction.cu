// Sums over any axes. Neighbouring threads read neighbouring elements: terms of one sum where the
// innermost axis is reduced, of different sums where it is kept.
#include "runtime/cuda/reduction.h"

#include "runtime/cuda/operands.h"
#include "runtime/cuda/team.cuh"

namespace flow::cuda {
namespace {

constexpr int kColumns = 32, kRows = 8;  // of a block by columns

/// The sum of terms first, first + step, ... below end. Four at a time, so that loads overlap.
template <typename T>
__device__ double sum_terms(const T* from, const Loops<1>& loops, int64_t first, int64_t end,
                            int64_t step) {
  double sums[4] = {};
  int64_t i = first;
  for (; i + 3 * step < end; i += 4 * step)
    for (int k = 0; k < 4; ++k) sums[k] += static_cast<double>(from[loops.at(i + k * step).of[0]]);
  for (; i < end; i += step) sums[0] += static_cast<double>(from[loops.at(i).of[0]]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// A sum's result, or the sum of one of its chunks.
template <typename T>
__device__ void store(const Sums& sums, int64_t output, double sum, double* parts, T* out) {
  if (sums.chunks == 1)
    out[output] = static_cast<T>(sums.factor * sum);
  else
    parts[output * sums.chunks + blockIdx.y] = sum;
}

/// A block for each output and chunk (blockIdx.y): its threads share the terms.
template <typename T>
__global__ void sum_rows(Sums sums, const T* x, double* parts, T* out) {
  const int64_t first = blockIdx.y * sums.chunk;
  const int64_t end = first + sums.chunk < sums.terms ? first + sums.chunk : sums.terms;
  for (int64_t output = blockIdx.x; output < sums.outputs; output += gridDim.x) {
    const T* from = x + sums.kept.at(output).of[0];
    const double own = sum_terms(from, sums.reduced, first + threadIdx.x, end, blockDim.x);
    const double sum = over_block(own, Sum{});
    if (threadIdx.x == 0) store(sums, output, sum, parts, out);
  }
}

/// A block of kColumns x kRows threads for kColumns outputs and a chunk: a row of threads for every
/// kRows-th term.
template <typename T>
__global__ void sum_columns(Sums sums, const T* x, double* parts, T* out) {
  double* own = shared<double>() + threadIdx.x;
  const int64_t first = blockIdx.y * sums.chunk;
  const int64_t end = first + sums.chunk < sums.terms ? first + sums.chunk : sums.terms;
  for (int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns; column < sums.outputs;
       column += static_cast<int64_t>(gridDim.x) * kColumns) {
    const int64_t output = column + threadIdx.x;
    const bool any = output < sums.outputs;
    __syncthreads();  // the sums of the columns before
    if (any)
      own[threadIdx.y * kColumns] =
          sum_terms(x + sums.kept.at(output).of[0], sums.reduced, first + threadIdx.y, end, kRows);
    __syncthreads();
    if (threadIdx.y > 0 || !any) continue;
    double sum = 0;
    for (int row = 0; row < kRows; ++row) sum += own[row * kColumns];
    store(sums, output, sum, parts, out);
  }
}

/// A warp for each output: the sum of its chunks'.
template <typename T>
__global__ void sum_chunks(Sums sums, const double* parts, T* out) {
  for (int64_t output = blockIdx.x; output < sums.outputs; output += gridDim.x) {
    double sum = 0;
    for (int64_t chunk = threadIdx.x; chunk < sums.chunks; chunk += kWarp)
      sum += parts[output * sums.chunks + chunk];
    sum = over_warp(sum, Sum{});
    if (threadIdx.x == 0) out[output] = static_cast<T>(sums.factor * sum);
  }
}

int64_t divided_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

unsigned blocks_for(int64_t n) { return static_cast<unsigned>(std::min<int64_t>(n, 1 << 16)); }

/// Enough chunks to make `blocks` into a grid that fills a large device, none of fewer terms than
/// `least`.
void cut(Sums& sums, int64_t blocks, int64_t least) {
  constexpr int64_t kFull = 1024;
  const int64_t most = std::max<int64_t>(1, divided_up(kFull, blocks));
  sums.chunk = std::max(least, divided_up(sums.terms, most));
  sums.chunks = divided_up(sums.terms, sums.chunk);
}

}  // namespace

Reduction::Reduction(const TensorDesc& x, const std::vector<bool>& reduced) : dtype_(x.dtype) {
  bool innermost_reduced = false;
  for (int axis = 0; axis < x.shape.rank(); ++axis) {
    const bool summed = reduced[static_cast<size_t>(axis)];
    (summed ? sums_.reduced : sums_.kept).add(x.shape[axis], {stride_of(x.shape, axis)});
    if (x.shape[axis] > 1) innermost_reduced = summed;
  }
  sums_.outputs = sums_.kept.elements();
  sums_.terms = sums_.reduced.elements();
  by_rows_ = innermost_reduced && sums_.terms >= kWarp;
  threads_ = sums_.terms >= 4 * kThreads ? kThreads : kWarp;
  if (by_rows_)
    cut(sums_, sums_.outputs, 64 * threads_);
  else
    cut(sums_, divided_up(sums_.outputs, kColumns), 32 * kRows);
}

size_t Reduction::workspace() const {
  if (sums_.chunks == 1) return 0;
  return static_cast<size_t>(sums_.outputs * sums_.chunks) * sizeof(double);
}

Launch Reduction::sum(double factor) const {
  Sums sums = sums_;
  sums.factor = factor;
  return visit_float(dtype_, [&]<typename T>(T) -> Launch {
    const auto chunks = static_cast<unsigned>(sums.chunks);
    const auto threads = static_cast<unsigned>(threads_);
    LaunchShape shape{{blocks_for(divided_up(sums.outputs, kColumns)), chunks},
                      {kColumns, kRows},
                      kColumns * kRows * sizeof(double)};
    if (by_rows_)
      shape = {{blocks_for(sums.outputs), chunks}, {threads}, threads / kWarp * sizeof(double)};
    const auto kernel = by_rows_ ? sum_rows<T> : sum_columns<T>;
    return [=](const Buffers& buffers, const LaunchState& state) {
      auto* parts = reinterpret_cast<double*>(buffers.workspace);
      T* out = output<T>(buffers, 0);
      launch(state.driver, state.stream, "sum", shape, kernel, sums, input<T>(buffers, 0), parts,
             out);
      if (sums.chunks > 1)
        launch(state.driver, state.stream, "sum_chunks", {{blocks_for(sums.outputs)}, {kWarp}},
               sum_chunks<T>, sums, parts, out);
    };
  });
}

}  // namespace flow::cuda
