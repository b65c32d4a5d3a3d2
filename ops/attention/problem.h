// A call of attention or of its gradients, as seen by the kernels of all devices: its operands, its
// extents, the keys that a query may see, and how operands broadcast to the scores.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "ops/core/attributes.h"
#include "runtime/base/array.h"
#include "runtime/base/host_device.h"

namespace flow::ops {

/// The indices of operands. The operands of the gradients start with dy and have the forward op's
/// results after the value.
struct AttentionOperands {
  size_t query = 0;  // the key and the value follow
  std::optional<size_t> mask = {}, bias = {}, lengths = {};

  /// Finds the operands of a call with `count` operands, where dtype_of(i) is the dtype of operand
  /// i.
  template <typename F>
  static AttentionOperands find(bool gradients, size_t count, F dtype_of) {
    AttentionOperands found{gradients ? size_t{1} : size_t{0}};
    for (size_t i = gradients ? 6 : 3; i < count; ++i) {
      const DType dtype = dtype_of(i);
      (dtype == DType::kBool ? found.mask : is_float(dtype) ? found.bias : found.lengths) = i;
    }
    return found;
  }
  /// Finds the operands of a device's request.
  template <typename Request>
  static AttentionOperands of(const Request& request, bool gradients) {
    return find(gradients, request.inputs.size(),
                [&](size_t i) { return request.inputs[i].dtype; });
  }
};

/// The keys [first, end); there are none if end <= first.
struct KeyRange {
  int64_t first, end;
};

/// The extents of `batches` independent problems, each with a query (queries, depth), a key (keys,
/// depth) and a value (keys, value_depth). Each `group` of consecutive batches shares a key and a
/// value.
struct AttentionExtents {
  int64_t batches, group, queries, keys, depth, value_depth;
  double scale;
  bool causal;
  int64_t window;    // maximum number of keys that a query of a causal call sees
  int64_t diagonal;  // query i of a causal call sees keys up to i + diagonal

  AttentionExtents(const Attributes& attributes, const Shape& query, const Shape& key,
                   const Shape& value) {
    const int rank = query.rank();
    batches = query.elements(0, rank - 2);
    group = batches / key.elements(0, rank - 2);
    queries = query[rank - 2];
    keys = key[rank - 2];
    depth = query[rank - 1];
    value_depth = value[rank - 1];
    scale = attributes.get<double>("scale");
    causal = attributes.get<bool>("causal");
    window = attributes.has("window") ? attributes.get<int64_t>("window") : std::max(queries, keys);
    diagonal = attributes.has("diagonal") ? attributes.get<int64_t>("diagonal") : 0;
  }
  template <typename Request>
  AttentionExtents(const Request& request, const AttentionOperands& at)
      : AttentionExtents(request.step.attributes, request.inputs[at.query].shape,
                         request.inputs[at.query + 1].shape, request.inputs[at.query + 2].shape) {}

  FLOW_HOST_DEVICE int64_t key_batches() const { return batches / group; }
  /// The number of keys in a batch of that length. A length out of range is clamped; the check of
  /// lengths stops the run.
  FLOW_HOST_DEVICE int64_t keys_of_length(int64_t length) const {
    return length < 0 ? 0 : length < keys ? length : keys;
  }
  /// The keys that at least one of the queries [first, end) may see, out of `length` keys.
  FLOW_HOST_DEVICE KeyRange seen_keys(int64_t length, int64_t first, int64_t end) const {
    KeyRange seen{0, length};
    if (!causal) return seen;
    if (end + diagonal < seen.end) seen.end = end + diagonal;
    if (first + diagonal >= window) seen.first = first + diagonal - window + 1;
    return seen;
  }
};

/// The strides of an operand that broadcasts to the scores (..., queries, keys).
struct ScoreSteps {
  int64_t query_step = 0, key_step = 0;  // in elements; 0 if an element is shared
  int64_t rows = 1, columns = 1;         // extents within one of its batches

  ScoreSteps() = default;
  /// Describes an operand of that shape, for a query of the other shape.
  ScoreSteps(const Shape& shape, const Shape& query, int64_t keys)
      : query_step(along(shape, query, query.rank() - 2)),
        key_step(along(shape, query, query.rank() - 1)),
        rows(query_step > 0 ? query[query.rank() - 2] : 1),
        columns(key_step > 0 ? keys : 1) {}

  /// The distance between neighboring elements along an axis of the scores; 0 if they share an
  /// element.
  static int64_t along(const Shape& shape, const Shape& query, int axis) {
    const int own = axis - (query.rank() - shape.rank());
    return own < 0 || shape[own] == 1 ? 0 : shape.elements(own + 1, shape.rank());
  }
};

}  // namespace flow::ops
