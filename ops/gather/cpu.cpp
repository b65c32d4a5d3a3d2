// CPU kernels that gather rows by index and that add to, overwrite or one-hot encode rows by index.
// Rows with equal indices are added in the order of the indices for any number of threads, and
// `scatter_update` keeps the last of them. `sparse_gather_grad` returns only the rows that have an
// index.
#include <algorithm>
#include <cstring>

#include "ops/core/cpu_labels.h"
#include "ops/gather/problem.h"
#include "runtime/base/element_types.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// Computes out[o, i, :] = params[o, indices[i], :] for rows [first, end) of the outer * count
/// rows. Writes zeros for an index that is out of range, which stops the run.
template <typename T>
void gather_rows(const GatherSizes& sizes, DType dtype, const T* params, const std::byte* indices,
                 T* out, int64_t first, int64_t end) {
  for (int64_t row = first; row < end; ++row) {
    const int64_t o = row / sizes.count, index = integer_at(dtype, indices, row - o * sizes.count);
    T* to = out + row * sizes.inner;
    // Checked first, because the address of an arbitrary index could overflow.
    if (!sizes.has(index)) {
      std::fill_n(to, sizes.inner, T{});
      continue;
    }
    const T* from = params + (o * sizes.extent + index) * sizes.inner;
    if (sizes.inner == 1)
      *to = *from;
    else
      std::memcpy(to, from, static_cast<size_t>(sizes.inner) * sizeof(T));
  }
}

template <typename T>
Kernel gather_with(const Request& request, const GatherSizes& sizes) {
  const TensorDesc& indices = request.inputs[1];
  return {[sizes, threads = request.threads, dtype = indices.dtype,
           check = LabelCheck(request, indices, sizes.extent)](const Buffers& buffers,
                                                               const CallState& state) {
    check.run(buffers.inputs[1], state);
    for_pieces(threads, sizes.outer * sizes.count, std::max<int64_t>(1, kPiece / sizes.inner),
               [&](int64_t first, int64_t end) {
                 gather_rows(sizes, dtype, input<T>(buffers, 0), buffers.inputs[1],
                             output<T>(buffers, 0), first, end);
               });
  }};
}

/// Splits the extent so that each piece scans all indices and adds only the rows that belong to it.
struct Pieces {
  int64_t rows;   // rows per piece, out of the extent
  int64_t count;  // pieces per outer part

  explicit Pieces(const GatherSizes& sizes) {
    constexpr int64_t kMost = 16;
    const int64_t work = (sizes.extent + sizes.count) * sizes.inner;
    count = std::clamp<int64_t>(std::min(work / kPiece, sizes.extent), 1,
                                std::max<int64_t>(1, kMost / sizes.outer));
    rows = ceil_div(sizes.extent, count);
    count = ceil_div(sizes.extent, rows);
  }
};

/// Computes out[j, :] = onto[j, :] plus all rows[i, :] with indices[i] = j, for j in [first, end).
/// Without `onto`, the sums start at zero.
template <typename I, typename T>
void add_picked(const GatherSizes& sizes, const I* indices, const T* rows, const T* onto, T* out,
                int64_t first, int64_t end) {
  if (onto)
    std::copy(onto + first * sizes.inner, onto + end * sizes.inner, out + first * sizes.inner);
  else
    std::fill(out + first * sizes.inner, out + end * sizes.inner, T{0});
  for (int64_t i = 0; i < sizes.count; ++i) {
    const auto index = static_cast<int64_t>(indices[i]);
    if (index < first || index >= end) continue;
    const T* from = rows + i * sizes.inner;
    T* to = out + index * sizes.inner;
#pragma omp simd
    for (int64_t k = 0; k < sizes.inner; ++k) to[k] += from[k];
  }
}

template <typename T>
Kernel one_hot_with(const Request& request, T on, T off) {
  const TensorDesc& indices = request.inputs[0];
  const int64_t depth = request.step.attributes.get<int64_t>("depth");
  return {[=, threads = request.threads, dtype = indices.dtype, count = indices.shape.elements(),
           check = LabelCheck(request, indices, depth)](const Buffers& buffers,
                                                        const CallState& state) {
    check.run(buffers.inputs[0], state);
    for_pieces(threads, count, std::max<int64_t>(1, kPiece / depth),
               [&](int64_t first, int64_t end) {
                 T* out = output<T>(buffers, 0);
                 std::fill(out + first * depth, out + end * depth, off);
                 for (int64_t i = first; i < end; ++i) {
                   const int64_t index = integer_at(dtype, buffers.inputs[0], i);
                   if (0 <= index && index < depth) out[i * depth + index] = on;
                 }
               });
  }};
}

Kernel prepare_gather(const Request& request) {
  const GatherSizes sizes =
      GatherSizes::of(request.step.attributes, request.inputs[0].shape, request.inputs[1].shape);
  return visit_size(size_of(request.inputs[0].dtype),
                    [&]<typename T>(T) -> Kernel { return gather_with<T>(request, sizes); });
}

/// Prepares gather_grad(indices, dy) or scatter_add(in, indices, updates). The indices of
/// gather_grad need no check, because gather has already checked them.
template <typename T>
Kernel scatter_with(const Request& request) {
  const size_t at = request.inputs.size() - 2;  // the operand with the indices
  const TensorDesc& indices = request.inputs[at];
  const GatherSizes sizes =
      GatherSizes::of(request.step.attributes, request.outputs[0].shape, indices.shape);
  Kernel kernel;
  visit_integer(indices.dtype, [&]<typename I>(I) {
    kernel.launch = [at, sizes, pieces = Pieces(sizes), threads = request.threads,
                     check = LabelCheck(request, indices, sizes.extent)](const Buffers& buffers,
                                                                         const CallState& state) {
      const T* onto = at > 0 ? input<T>(buffers, 0) : nullptr;
      if (onto) check.run(buffers.inputs[at], state);
      parallel_for(threads, sizes.outer * pieces.count, [&](int64_t piece, int) {
        const int64_t o = piece / pieces.count, first = piece % pieces.count * pieces.rows;
        const int64_t part = o * sizes.extent * sizes.inner;
        add_picked(sizes, input<I>(buffers, at),
                   input<T>(buffers, at + 1) + o * sizes.count * sizes.inner,
                   onto ? onto + part : nullptr, output<T>(buffers, 0) + part, first,
                   std::min(sizes.extent, first + pieces.rows));
      });
    };
  });
  return kernel;
}

Kernel prepare_scatter(const Request& request) {
  return visit_float(request.outputs[0].dtype,
                     [&]<typename T>(T) { return scatter_with<T>(request); });
}

/// An index and its place among the indices.
struct Pick {
  int64_t index, place;
  auto operator<=>(const Pick&) const = default;
};

/// Picks in a workspace, sorted by index and then by place, with the position where each index
/// begins among them.
struct SortedPicks {
  SortedPicks(std::byte* memory, int64_t count)
      : picks(reinterpret_cast<Pick*>(memory)), begins(reinterpret_cast<int64_t*>(picks + count)) {}
  static size_t bytes(int64_t count) {
    return static_cast<size_t>(count) * sizeof(Pick) +
           static_cast<size_t>(count + 1) * sizeof(int64_t);
  }

  /// Sorts the picks of the indices that are in range. Returns the number of different indices.
  int64_t sort(DType dtype, const std::byte* indices, const GatherSizes& sizes) {
    int64_t known = 0, different = 0;
    for (int64_t i = 0; i < sizes.count; ++i)
      if (const int64_t index = integer_at(dtype, indices, i); sizes.has(index))
        picks[known++] = {index, i};
    std::sort(picks, picks + known);
    for (int64_t i = 0; i < known; ++i)
      if (i == 0 || picks[i].index != picks[i - 1].index) begins[different++] = i;
    begins[different] = known;
    return different;
  }

  Pick* picks;
  int64_t* begins;
};

/// Computes rows[r, :] = the sum of dy[place, :] over the places of index r, in the order of the
/// places. Rows starting with `different` are zero.
template <typename T>
void add_rows(const SortedPicks& sorted, int64_t different, const T* dy, int64_t inner, T* rows,
              int64_t* indices, int64_t first, int64_t end) {
  for (int64_t r = first; r < end; ++r) {
    T* to = rows + r * inner;
    std::fill_n(to, inner, T{0});
    indices[r] = r < different ? sorted.picks[sorted.begins[r]].index : -1;
    if (r >= different) continue;
    for (int64_t i = sorted.begins[r]; i < sorted.begins[r + 1]; ++i) {
      const T* from = dy + sorted.picks[i].place * inner;
#pragma omp simd
      for (int64_t k = 0; k < inner; ++k) to[k] += from[k];
    }
  }
}

Kernel prepare_sparse_gather_grad(const Request& request) {
  const TensorDesc &indices = request.inputs[0], &dy = request.inputs[1];
  const GatherSizes sizes = GatherSizes::of_rows(request.step.attributes, indices.shape, dy.shape);
  Kernel kernel;
  kernel.workspace = SortedPicks::bytes(sizes.count);
  visit_float(dy.dtype, [&]<typename T>(T) {
    kernel.launch = [sizes, dtype = indices.dtype, threads = request.threads](
                        const Buffers& buffers, const CallState&) {
      SortedPicks sorted(buffers.workspace, sizes.count);
      const int64_t different = sorted.sort(dtype, buffers.inputs[0], sizes);
      for_pieces(threads, sizes.count, std::max<int64_t>(1, kPiece / sizes.inner),
                 [&](int64_t first, int64_t end) {
                   add_rows(sorted, different, input<T>(buffers, 1), sizes.inner,
                            output<T>(buffers, 0), output<int64_t>(buffers, 1), first, end);
                 });
    };
  });
  return kernel;
}

/// Computes y[indices[i], :] = rows[i, :] for the indices in [first, end), in the order of i.
template <typename T>
void put_picked(const GatherSizes& sizes, DType dtype, const std::byte* indices, const T* rows,
                T* y, int64_t first, int64_t end) {
  for (int64_t i = 0; i < sizes.count; ++i) {
    const int64_t index = integer_at(dtype, indices, i);
    if (index < first || index >= end) continue;
    std::copy_n(rows + i * sizes.inner, sizes.inner, y + index * sizes.inner);
  }
}

/// Prepares scatter_update. The result may alias the first operand.
Kernel prepare_scatter_update(const Request& request) {
  const TensorDesc& indices = request.inputs[1];
  const GatherSizes sizes =
      GatherSizes::of(request.step.attributes, request.outputs[0].shape, indices.shape);
  Kernel kernel;
  visit_size(size_of(request.inputs[0].dtype), [&]<typename T>(T) {
    kernel.launch = [sizes, pieces = Pieces(sizes), threads = request.threads,
                     dtype = indices.dtype, check = LabelCheck(request, indices, sizes.extent)](
                        const Buffers& buffers, const CallState& state) {
      check.run(buffers.inputs[1], state);
      parallel_for(threads, sizes.outer * pieces.count, [&](int64_t piece, int) {
        const int64_t o = piece / pieces.count, first = piece % pieces.count * pieces.rows;
        const int64_t end = std::min(sizes.extent, first + pieces.rows);
        const T* x = input<T>(buffers, 0) + o * sizes.extent * sizes.inner;
        T* y = output<T>(buffers, 0) + o * sizes.extent * sizes.inner;
        if (x != y)
          std::copy(x + first * sizes.inner, x + end * sizes.inner, y + first * sizes.inner);
        put_picked(sizes, dtype, buffers.inputs[1],
                   input<T>(buffers, 2) + o * sizes.count * sizes.inner, y, first, end);
      });
    };
  });
  return kernel;
}

Kernel prepare_one_hot(const Request& request) {
  const plan::Attributes& attributes = request.step.attributes;
  return visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    return one_hot_with(request, convert<T>(attributes.get<double>("on_value")),
                        convert<T>(attributes.get<double>("off_value")));
  });
}

}  // namespace

std::span<const KernelEntry> gather() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "gather", .prepare = prepare_gather, .any_dtype = true},
      {.op = "gather_grad", .prepare = prepare_scatter, .float64 = prepare_scatter},
      {.op = "sparse_gather_grad",
       .prepare = prepare_sparse_gather_grad,
       .float64 = prepare_sparse_gather_grad},
      {.op = "scatter_add", .prepare = prepare_scatter, .float64 = prepare_scatter},
      {.op = "scatter_update", .prepare = prepare_scatter_update, .any_dtype = true},
      {.op = "one_hot", .prepare = prepare_one_hot, .float64 = prepare_one_hot},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
