// Attention as a graph of NVIDIA's C++ front end. Only cudnn.cpp includes this file, because
// compiling the front end takes half a minute.
#pragma once

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/cuda/libraries/libraries.h"

namespace flow::cuda {

/// Builds the graph of a spec. Its tensors have the names of the members of AttentionBuffers.
class AttentionGraph {
 public:
  explicit AttentionGraph(const AttentionSpec& spec) : spec_(spec) {}

  void add_to(cudnn_frontend::graph::Graph& graph) const {
    const Tensor query = input(graph, kQuery, spec_.query), key = input(graph, kKey, spec_.key),
                 value = input(graph, kValue, spec_.value);
    if (spec_.pass == AttentionSpec::Pass::kForward) {
      const auto results =
          graph.sdpa(query, key, value,
                     configure<cudnn_frontend::graph::SDPA_attributes>(graph).set_generate_stats(
                         spec_.log_sums));
      mark_output(results[0], kOut, spec_.out());
      if (!spec_.log_sums) return;
      mark_output(results[1], kLogSums, spec_.log_sums_shape());
      results[1]->set_data_type(cudnn_frontend::DataType_t::FLOAT);
      return;
    }
    const Tensor log_sums = input(graph, kLogSums, spec_.log_sums_shape());
    log_sums->set_data_type(cudnn_frontend::DataType_t::FLOAT);
    const auto results =
        graph.sdpa_backward(query, key, value, input(graph, kOut, spec_.out()),
                            input(graph, kDy, spec_.out()), log_sums,
                            configure<cudnn_frontend::graph::SDPA_backward_attributes>(graph)
                                .set_deterministic_algorithm(!spec_.math_mode.any_order));
    mark_output(results[0], kDquery, spec_.query);
    mark_output(results[1], kDkey, spec_.key);
    mark_output(results[2], kDvalue, spec_.value);
  }

  /// Returns the addresses of the graph's tensors in a call.
  static std::unordered_map<int64_t, void*> addresses(const AttentionBuffers& buffers) {
    const auto address = [](const std::byte* memory) {
      return static_cast<void*>(const_cast<std::byte*>(memory));
    };
    std::unordered_map<int64_t, void*> all = {{kQuery, address(buffers.query)},
                                              {kKey, address(buffers.key)},
                                              {kValue, address(buffers.value)},
                                              {kOut, buffers.out},
                                              {kLogSums, buffers.log_sums},
                                              {kDy, address(buffers.dy)},
                                              {kDquery, buffers.dquery},
                                              {kDkey, buffers.dkey},
                                              {kDvalue, buffers.dvalue},
                                              {kBias, address(buffers.bias)},
                                              {kQueryLengths, address(buffers.query_lengths)},
                                              {kKeyLengths, address(buffers.key_lengths)}};
    std::erase_if(all, [](const auto& named) { return named.second == nullptr; });
    return all;
  }

 private:
  using Tensor = std::shared_ptr<cudnn_frontend::graph::Tensor_attributes>;
  enum Uid : int64_t {
    kQuery = 1,
    kKey,
    kValue,
    kOut,
    kLogSums,
    kDy,
    kDquery,
    kDkey,
    kDvalue,
    kBias,
    kQueryLengths,
    kKeyLengths
  };

  static std::vector<int64_t> strides(const Shape& shape) {
    std::vector<int64_t> made;
    for (int axis = 0; axis < shape.rank(); ++axis)
      made.push_back(shape.elements(axis + 1, shape.rank()));
    return made;
  }

  static Tensor input(cudnn_frontend::graph::Graph& graph, Uid uid, const Shape& shape) {
    return graph.tensor(cudnn_frontend::graph::Tensor_attributes()
                            .set_uid(uid)
                            .set_dim(shape.extents())
                            .set_stride(strides(shape)));
  }

  Tensor input_lengths(cudnn_frontend::graph::Graph& graph, Uid uid) const {
    const Tensor lengths = input(graph, uid, {spec_.query[0], 1, 1, 1});
    lengths->set_data_type(cudnn_frontend::DataType_t::INT32);
    return lengths;
  }

  static void mark_output(const Tensor& tensor, Uid uid, const Shape& shape) {
    tensor->set_output(true).set_uid(uid).set_dim(shape.extents()).set_stride(strides(shape));
  }

  /// Returns the attributes that both passes share.
  template <typename Attributes>
  Attributes configure(cudnn_frontend::graph::Graph& graph) const {
    Attributes attributes;
    attributes.set_attn_scale(static_cast<float>(spec_.scale));
    // The bias has the dtype of the graph, because cuDNN's kernels would interpret any other dtype
    // as that one.
    if (spec_.bias) attributes.set_bias(input(graph, kBias, *spec_.bias));
    if (spec_.lengths)
      attributes.set_padding_mask(true)
          .set_seq_len_q(input_lengths(graph, kQueryLengths))
          .set_seq_len_kv(input_lengths(graph, kKeyLengths));
    if (spec_.causal)
      attributes
          .set_diagonal_alignment(spec_.bottom_right
                                      ? cudnn_frontend::DiagonalAlignment_t::BOTTOM_RIGHT
                                      : cudnn_frontend::DiagonalAlignment_t::TOP_LEFT)
          .set_diagonal_band_right_bound(0);
    // The front end keeps the keys for which key + bound > query.
    if (spec_.window > 0) attributes.set_diagonal_band_left_bound(static_cast<int>(spec_.window));
    return attributes;
  }

  const AttentionSpec& spec_;
};

inline std::string text_of(const AttentionSpec& spec) {
  const bool forward = spec.pass == AttentionSpec::Pass::kForward;
  return fmt::format("{}{}{}{} of {} with {} and {}{}{}, {}", forward ? "" : "gradients of ",
                     spec.causal ? "causal attention" : "attention",
                     spec.bottom_right ? " from the bottom right" : "",
                     spec.window > 0 ? fmt::format(" in a window of {}", spec.window) : "",
                     spec.query.str(), spec.key.str(), spec.value.str(),
                     spec.bias ? fmt::format(", bias {}", spec.bias->str()) : "",
                     spec.lengths ? ", lengths" : "", name_of(spec.dtype));
}

}  // namespace flow::cuda
