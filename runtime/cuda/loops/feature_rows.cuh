// Rows of adjacent features, with a team of threads for each; and sums over rows: those of chunks
// of rows, added up in order in float64.
#pragma once

#include <algorithm>

#include "runtime/base/ceil_div.h"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {

inline constexpr int kBlockColumns = 32, kBlockRows = 8;  // of a block that sums over rows

/// [rows, features]
struct FeatureRows {
  int64_t rows = 1, features = 1;
  int64_t chunk = 1, chunks = 1;  // rows, of sums over them
};

/// Operand 0, whose features begin at the step's attribute `axis`.
inline FeatureRows feature_rows(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto axis = static_cast<int>(attribute<int64_t>(request, "axis"));
  FeatureRows r{x.elements(0, axis), x.elements(axis, x.rank())};
  constexpr int64_t kFull = 1024, kLeast = 32;  // blocks; rows of a chunk
  const int64_t most = std::max<int64_t>(1, kFull / ceil_div(r.features, kBlockColumns));
  r.chunk = std::max(kLeast, ceil_div(r.rows, most));
  r.chunks = ceil_div(r.rows, r.chunk);
  return r;
}

/// Is a warp a row's team? Else a block is.
inline bool is_short(const FeatureRows& r) { return r.features <= 1024; }

inline LaunchShape shape_for_teams(const FeatureRows& r) {
  const unsigned threads = is_short(r) ? kWarp : kThreads;
  return {{blocks_for(r.rows)}, {threads}, threads / kWarp * sizeof(double)};
}

/// The sum of term(i), i < n, over a team of kTeam threads; every thread gets it.
template <int kTeam, typename Term>
__device__ double sum_row(int64_t n, Term term) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kTeam) sum += term(i);
  return over_team<kTeam>(sum, Sum{});
}

/// A block of kBlockColumns x kBlockRows threads for kBlockColumns features and a chunk of rows.
/// `gradients` makes a term of Gradients::Sums from element `at` of a row.
template <typename Gradients>
__global__ void sum_features(FeatureRows r, Gradients gradients, typename Gradients::Sums* parts) {
  using Sums = typename Gradients::Sums;
  Sums* own = shared<Sums>() + threadIdx.x;
  const int64_t first = blockIdx.y * r.chunk;
  const int64_t end = first + r.chunk < r.rows ? first + r.chunk : r.rows;
  for (int64_t column = static_cast<int64_t>(blockIdx.x) * kBlockColumns; column < r.features;
       column += static_cast<int64_t>(gridDim.x) * kBlockColumns) {
    const int64_t i = column + threadIdx.x;
    const bool any = i < r.features;
    Sums sums{};
    for (int64_t row = first + threadIdx.y; any && row < end; row += kBlockRows)
      sums += gradients.term(row, row * r.features + i);
    __syncthreads();  // the sums of the columns before
    own[threadIdx.y * kBlockColumns] = sums;
    __syncthreads();
    if (threadIdx.y > 0 || !any) continue;
    for (int other = 1; other < kBlockRows; ++other) sums += own[other * kBlockColumns];
    parts[blockIdx.y * r.features + i] = sums;
  }
}

/// A thread for each feature, whose sums `gradients` stores.
template <typename Gradients>
__global__ void add_chunks(FeatureRows r, const typename Gradients::Sums* parts,
                           Gradients gradients) {
  for (int64_t i = first_index(); i < r.features; i += index_step()) {
    typename Gradients::Sums sums{};
    for (int64_t chunk = 0; chunk < r.chunks; ++chunk) sums += parts[chunk * r.features + i];
    gradients.store(i, sums);
  }
}

/// Bytes of workspace that sum_over_rows takes.
template <typename Gradients>
size_t workspace_for(const FeatureRows& r) {
  return static_cast<size_t>(r.chunks * r.features) * sizeof(typename Gradients::Sums);
}

/// Launches both, under these names.
template <typename Gradients>
void sum_over_rows(const LaunchState& state, const char* sums, const char* chunks,
                   const FeatureRows& r, const Gradients& gradients, std::byte* workspace) {
  auto* parts = reinterpret_cast<typename Gradients::Sums*>(workspace);
  const LaunchShape shape{
      {blocks_for(ceil_div(r.features, kBlockColumns)), static_cast<unsigned>(r.chunks)},
      {kBlockColumns, kBlockRows},
      kBlockColumns * kBlockRows * sizeof(*parts)};
  launch(state.driver, state.stream, sums, shape, sum_features<Gradients>, r, gradients, parts);
  launch(state.driver, state.stream, chunks, shape_for(r.features), add_chunks<Gradients>, r, parts,
         gradients);
}

}  // namespace flow::cuda
