// Lengths for a library's attention, and zeros where it leaves results undefined.
#include "ops/attention/cuda_hidden.h"

#include <utility>

#include "ops/attention/cuda_request.h"
#include "runtime/cuda/loops/operands.h"

namespace flow::cuda {
namespace {

constexpr size_t kPartAlignment = 256;  // bytes, of every buffer

/// For each batch of `heads` batches of queries: all queries, and its keys, of which the library
/// needs one.
__global__ void store_lengths(Attention at, int64_t heads, int32_t* queries, int32_t* keys) {
  for (int64_t i = first_index(); i < at.batches / heads; i += index_step()) {
    const int64_t length = at.length(i * heads);
    queries[i] = static_cast<int32_t>(at.queries);
    keys[i] = static_cast<int32_t>(length > 0 ? length : 1);
  }
}

/// Does the query see no key, or only keys whose bias is -inf? Most queries see one at once.
__device__ inline bool sees_none(const Attention& at, int64_t batch, int64_t query,
                                 uint16_t minus_infinity) {
  const KeyRange seen = at.seen_keys(batch, query, query + 1, 1);
  const uint16_t* bias = at.bias.of<uint16_t>(batch);
  if (!bias) return seen.first >= seen.end;
  for (int64_t key = seen.first; key < seen.end; ++key)
    if (bias[query * at.bias.query + key * at.bias.key] != minus_infinity) return false;
  return true;
}

/// Zeros in the results of queries that see no key. `log_sums` may be null.
__global__ void clear_results(Attention at, uint16_t minus_infinity, uint16_t* out,
                              float* log_sums) {
  for (int64_t row = first_index(); row < at.batches * at.queries; row += index_step()) {
    if (!sees_none(at, row / at.queries, row % at.queries, minus_infinity)) continue;
    for (int64_t i = 0; i < at.value_depth; ++i) out[row * at.value_depth + i] = 0;
    if (log_sums) log_sums[row] = 0;
  }
}

/// Zeros in the gradients of queries of batches without keys.
__global__ void clear_queries(Attention at, uint16_t* gradients) {
  const int64_t batch = at.queries * at.depth;
  for (int64_t i = first_index(); i < at.batches * batch; i += index_step())
    if (at.length(i / batch) == 0) gradients[i] = 0;
}

/// Zeros in the gradients of keys, or of values, that lengths hide.
__global__ void clear_keys(Attention at, int64_t depth, uint16_t* gradients) {
  const int64_t rows = at.batches / at.group * at.keys;
  for (int64_t i = first_index(); i < rows * depth; i += index_step()) {
    const int64_t row = i / depth;
    if (row % at.keys >= at.length(row / at.keys * at.group)) gradients[i] = 0;
  }
}

/// What a step needs besides the library.
struct HiddenKeys {
  AttentionRequest request;
  AttentionSpec::Pass pass;
  int64_t heads;  // of a batch of queries
  uint16_t minus_infinity;
  size_t query_lengths, key_lengths;  // where they are in the workspace

  /// Lengths for the library; `buffers` get their addresses.
  void store(const Attention& at, const Buffers& b, const LaunchState& state,
             AttentionBuffers& buffers) const {
    if (!request.operands.lengths) return;
    std::byte *queries = b.workspace + query_lengths, *keys = b.workspace + key_lengths;
    launch(state.driver, state.stream, "attention_store_lengths", shape_for(at.batches / heads),
           store_lengths, at, heads, reinterpret_cast<int32_t*>(queries),
           reinterpret_cast<int32_t*>(keys));
    buffers.query_lengths = queries;
    buffers.key_lengths = keys;
  }

  void clear(const Attention& at, const Buffers& b, const LaunchState& state,
             float* log_sums) const {
    if (pass == AttentionSpec::Pass::kForward)
      return launch(state.driver, state.stream, "attention_clear_results",
                    shape_for(at.batches * at.queries), clear_results, at, minus_infinity,
                    output<uint16_t>(b, 0), log_sums);
    if (!request.operands.lengths) return;
    launch(state.driver, state.stream, "attention_clear_queries",
           shape_for(at.batches * at.queries * at.depth), clear_queries, at,
           output<uint16_t>(b, 0));
    const auto clear_rows = [&](int64_t depth, size_t result) {
      launch(state.driver, state.stream, "attention_clear_keys",
             shape_for(at.batches / at.group * at.keys * depth), clear_keys, at, depth,
             output<uint16_t>(b, result));
    };
    clear_rows(at.depth, 1);
    clear_rows(at.value_depth, 2);
  }
};

}  // namespace

Kernel prepare_hidden_keys(const Request& request, const AttentionSpec& spec,
                           const AttentionKernel& library,
                           std::function<AttentionBuffers(const Buffers&)> buffers_of) {
  Kernel kernel;
  kernel.workspace = library.workspace;
  const auto add_lengths = [&] {
    const size_t at = round_up(kernel.workspace, kPartAlignment);
    if (spec.lengths) kernel.workspace = at + static_cast<size_t>(spec.query[0]) * sizeof(int32_t);
    return at;
  };
  const bool forward = spec.pass == AttentionSpec::Pass::kForward;
  const HiddenKeys hidden{AttentionRequest(request, !forward),
                          spec.pass,
                          spec.query[1],
                          static_cast<uint16_t>(spec.dtype == DType::kFloat16 ? 0xFC00 : 0xFF80),
                          add_lengths(),
                          add_lengths()};
  kernel.launch = [library, hidden, buffers_of = std::move(buffers_of)](const Buffers& b,
                                                                        const LaunchState& state) {
    const Attention at = hidden.request.bind(b, state);
    AttentionBuffers buffers = buffers_of(b);
    hidden.store(at, b, state, buffers);
    library.run(buffers, state.stream);
    hidden.clear(at, b, state, reinterpret_cast<float*>(buffers.log_sums));
  };
  return kernel;
}

}  // namespace flow::cuda
