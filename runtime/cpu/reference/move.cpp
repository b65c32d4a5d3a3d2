// Reference: elements moved one by one: transpose, concat, stack, split, slice, pad, tile, and
// their gradients.
#include <array>
#include <cstring>

#include "runtime/base/convert.h"
#include "runtime/base/padding.h"
#include "runtime/cpu/reference/index.h"

namespace flow::cpu::reference {
namespace {

using Integers = std::vector<int64_t>;

const Integers& integers(const Request& request, std::string_view name) {
  return request.step.attributes.get<Integers>(name);
}

using Places = std::array<int64_t, plan::kMaxRank>;

/// The place along each axis of element i.
Places places_of(const Shape& shape, int64_t i) {
  Places places{};
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    places[static_cast<size_t>(axis)] = i % shape[axis];
    i /= shape[axis];
  }
  return places;
}

int64_t index_at(const Shape& shape, const Places& places) {
  int64_t index = 0;
  for (int axis = 0; axis < shape.rank(); ++axis)
    index = index * shape[axis] + places[static_cast<size_t>(axis)];
  return index;
}

/// y[i] = x[source(i)] for every element of a result like this, of any dtype.
template <typename Source>
Kernel moving(const Request& request, Source source) {
  Kernel kernel;
  kernel.launch = [source, element = size_of(request.inputs[0].dtype),
                   n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                            const CallState&) {
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(buffers.outputs[0] + static_cast<size_t>(i) * element,
                  buffers.inputs[0] + static_cast<size_t>(source(i)) * element, element);
  };
  return kernel;
}

/// The element of `x` that element i of a slice of it is.
struct SliceSource {
  SliceSource(const Request& request, Shape x_shape)
      : x(std::move(x_shape)),
        counts(integers(request, "counts")),
        starts(integers(request, "starts")),
        steps(integers(request, "steps")) {}
  int64_t operator()(int64_t i) const {
    Places places = places_of(counts, i);
    for (size_t axis = 0; axis < starts.size(); ++axis)
      places[axis] = starts[axis] + places[axis] * steps[axis];
    return index_at(x, places);
  }

  Shape x, counts;
  Integers starts, steps;
};

/// The element of `x` that element i of it with `paddings` around shows, or -1.
struct PadSource {
  PadSource(const Request& request, Shape x_shape, Shape y_shape)
      : x(std::move(x_shape)),
        y(std::move(y_shape)),
        paddings(integers(request, "paddings")),
        mode(pad_mode(request.step.attributes.get<std::string>("mode"))) {}
  int64_t operator()(int64_t i) const {
    Places places = places_of(y, i);
    for (int axis = 0; axis < x.rank(); ++axis) {
      int64_t& place = places[static_cast<size_t>(axis)];
      const size_t pair = 2 * static_cast<size_t>(axis);
      place = PaddedAxis{x[axis], paddings[pair], paddings[pair + 1]}.source(mode, place);
      if (place < 0) return -1;
    }
    return index_at(x, places);
  }

  Shape x, y;
  Integers paddings;
  PadMode mode;
};

/// dx[source(i)] += dy[i], from zero.
template <typename Source>
Kernel scattering(const Request& request, Source source) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [source, n = request.inputs[0].shape.elements(),
                     m = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                              const CallState&) {
      for (int64_t j = 0; j < m; ++j) output<T>(buffers, 0)[j] = 0;
      for (int64_t i = 0; i < n; ++i) output<T>(buffers, 0)[source(i)] += input<T>(buffers, 0)[i];
    };
  });
  return kernel;
}

/// Copies each element of each part from or to its place in the whole, [outer, extent, inner].
Kernel joining(const Request& request, std::vector<int64_t> sizes, int64_t outer, int64_t inner,
               bool together) {
  Kernel kernel;
  int64_t extent = 0;
  for (const int64_t size : sizes) extent += size;
  kernel.launch = [=, element = size_of(request.inputs[0].dtype)](const Buffers& buffers,
                                                                  const CallState&) {
    int64_t begin = 0;
    for (size_t k = 0; k < sizes.size(); begin += sizes[k++]) {
      std::byte* part = together ? const_cast<std::byte*>(buffers.inputs[k]) : buffers.outputs[k];
      std::byte* whole = together ? buffers.outputs[0] : const_cast<std::byte*>(buffers.inputs[0]);
      if (!part) continue;
      for (int64_t i = 0; i < outer * sizes[k] * inner; ++i) {
        const int64_t o = i / (sizes[k] * inner), rest = i % (sizes[k] * inner);
        std::byte* own = part + static_cast<size_t>(i) * element;
        std::byte* there =
            whole + static_cast<size_t>((o * extent + begin) * inner + rest) * element;
        std::memcpy(together ? there : own, together ? own : there, element);
      }
    }
  };
  return kernel;
}

}  // namespace

Kernel transpose(const Request& request) {
  const Shape x = request.inputs[0].shape, y = request.outputs[0].shape;
  return moving(request, [x, y, perm = integers(request, "perm")](int64_t i) {
    const Places out = places_of(y, i);
    Places in{};
    for (size_t axis = 0; axis < perm.size(); ++axis)
      in[static_cast<size_t>(perm[axis])] = out[axis];
    return index_at(x, in);
  });
}

Kernel concat(const Request& request) {
  const int axis = axis_of(request);
  const Shape& y = request.outputs[0].shape;
  Integers sizes;
  for (const TensorDesc& x : request.inputs) sizes.push_back(x.shape[axis]);
  return joining(request, sizes, y.elements(0, axis), y.elements(axis + 1, y.rank()), true);
}

Kernel stack(const Request& request) {
  const int axis = axis_of(request);
  const Shape& y = request.outputs[0].shape;
  return joining(request, Integers(request.inputs.size(), 1), y.elements(0, axis),
                 y.elements(axis + 1, y.rank()), true);
}

Kernel split(const Request& request) {
  const int axis = axis_of(request);
  const Shape& x = request.inputs[0].shape;
  return joining(request, integers(request, "sizes"), x.elements(0, axis),
                 x.elements(axis + 1, x.rank()), false);
}

Kernel slice(const Request& request) {
  return moving(request, SliceSource(request, request.inputs[0].shape));
}

Kernel slice_grad(const Request& request) {
  return scattering(request, SliceSource(request, request.outputs[0].shape));
}

Kernel pad(const Request& request) {
  const double value = request.step.attributes.get<double>("value");
  const PadSource source(request, request.inputs[0].shape, request.outputs[0].shape);
  Kernel kernel;
  visit_dtype(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [source, value, n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                                             const CallState&) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t from = source(i);
        output<T>(buffers, 0)[i] = from < 0 ? convert<T>(value) : input<T>(buffers, 0)[from];
      }
    };
  });
  return kernel;
}

Kernel pad_grad(const Request& request) {
  return scattering(request, PadSource(request, request.outputs[0].shape, request.inputs[0].shape));
}

Kernel tile(const Request& request) {
  const Shape x = request.inputs[0].shape, y = request.outputs[0].shape;
  return moving(request, [x, y](int64_t i) {
    Places places = places_of(y, i);
    for (int axis = 0; axis < x.rank(); ++axis) places[static_cast<size_t>(axis)] %= x[axis];
    return index_at(x, places);
  });
}

}  // namespace flow::cpu::reference
