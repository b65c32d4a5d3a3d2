// Layouts of tensors. A tensor joins the channels-last group of a convolution or a pool through
// steps whose kernels require the same layout for all their 4-D operands. Probes have no influence:
// their results stay plain, so that watching a tensor changes neither the layouts nor the order of
// sums.
#include "runtime/cpu/backend/layout.h"

#include <algorithm>
#include <cstring>

#include "ops/core/spec.h"
#include "runtime/base/element_types.h"
#include "runtime/cpu/loops/parallel.h"

namespace flow::cpu {
namespace {

using plan::TensorId;

template <typename F>
void for_each_operand(const plan::Step& step, F f) {
  for (TensorId id : step.inputs) f(id);
  for (TensorId id : step.outputs)
    if (id.valid()) f(id);
}

/// Calls f for each operand and result that the op's record marks as `images`.
template <typename F>
void for_each_of(ops::Images images, const plan::Step& step, F f) {
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (step.op->operand(i).images == images) f(step.inputs[i]);
  for (size_t i = 0; i < step.outputs.size(); ++i)
    if (step.outputs[i].valid() && step.op->result(i).images == images) f(step.outputs[i]);
}

/// Returns true if the shards of the tensor are joined along an inner axis, which requires plain
/// layout.
bool is_joined_inside(const plan::Job& job, const plan::Tensor& tensor) {
  return job.sharding && tensor.batch_axis > 0;
}

/// Returns true for the state of a loop, which is plain.
bool lies_in_variable(const plan::Job& job, const plan::Tensor& tensor) {
  return tensor.alias.valid() && job[tensor.alias].role == plan::Role::kVariable;
}

/// Makes all free 4-D operands of the step channels-last if one of them is. Returns true if that
/// changed anything.
bool spread(const plan::Step& step, const std::vector<bool>& free, std::vector<Layout>& layouts) {
  bool any = false, changed = false;
  for_each_operand(step, [&](TensorId id) { any |= layouts[id.index()] == Layout::kChannelsLast; });
  if (!any) return false;
  for_each_operand(step, [&](TensorId id) {
    if (!free[id.index()] || layouts[id.index()] == Layout::kChannelsLast) return;
    layouts[id.index()] = Layout::kChannelsLast;
    changed = true;
  });
  return changed;
}

/// Transposes each image from [rows, columns] to [columns, rows] in tiles that stay in the L1
/// cache.
template <typename T>
void transpose_images(int threads, int64_t images, int64_t rows, int64_t columns,
                      const std::byte* from, std::byte* to) {
  constexpr int64_t kTile = 16;
  parallel_for(threads, images, [&](int64_t image, int) {
    const T* in = reinterpret_cast<const T*>(from) + image * rows * columns;
    T* out = reinterpret_cast<T*>(to) + image * rows * columns;
    for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
      for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
        const int64_t r1 = std::min(rows, r0 + kTile), c1 = std::min(columns, c0 + kTile);
        for (int64_t c = c0; c < c1; ++c)
          for (int64_t r = r0; r < r1; ++r) out[c * rows + r] = in[r * columns + c];
      }
    }
  });
}

}  // namespace

std::vector<Layout> assign_layouts(const plan::Job& job,
                                   std::span<const KernelEntry* const> kernels) {
  std::vector<bool> free(job.tensors.size());
  for (size_t i = 0; i < free.size(); ++i) {
    const plan::Tensor& tensor = job.tensors[i];
    free[i] = tensor.role == plan::Role::kResult && tensor.shape.rank() == 4 &&
              !is_joined_inside(job, tensor) && !lies_in_variable(job, tensor);
  }
  for (const plan::Step& step : job.steps)
    for_each_of(ops::Images::kFilters, step, [&](TensorId id) { free[id.index()] = false; });
  std::vector<Layout> layouts(job.tensors.size(), Layout::kPlain);
  for (size_t i = 0; i < job.steps.size(); ++i) {
    if (kernels[i]->layouts == Layouts::kPlain || job.steps[i].probe) continue;
    for_each_of(ops::Images::kActivations, job.steps[i], [&](TensorId id) {
      if (free[id.index()]) layouts[id.index()] = Layout::kChannelsLast;
    });
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < job.steps.size(); ++i)
      if (kernels[i]->layouts == Layouts::kSame && !job.steps[i].probe)
        changed |= spread(job.steps[i], free, layouts);
  }
  return layouts;
}

bool layouts_coincide(const Shape& shape) {
  return shape.rank() != 4 || shape[1] == 1 || shape.elements(2, 4) == 1;
}

bool lie_alike(const plan::Job& job, std::span<const Layout> layouts, plan::TensorId a,
               plan::TensorId b) {
  const auto is_plain = [&](plan::TensorId id) {
    return layouts[id.index()] == Layout::kPlain || layouts_coincide(job[id].shape);
  };
  const bool same = layouts[a.index()] == layouts[b.index()];
  return (is_plain(a) && is_plain(b)) || (same && job[a].shape == job[b].shape);
}

void reorder(int threads, size_t element, const Shape& shape, Layout from, const std::byte* in,
             Layout to, std::byte* out) {
  if (from == to || layouts_coincide(shape)) {
    std::memcpy(out, in, static_cast<size_t>(shape.elements()) * element);
    return;
  }
  const int64_t channels = shape[1], pixels = shape.elements(2, 4);
  const int64_t rows = from == Layout::kPlain ? channels : pixels;
  const int64_t columns = from == Layout::kPlain ? pixels : channels;
  visit_size(element, [&]<typename T>(T) {
    transpose_images<T>(threads, shape[0], rows, columns, in, out);
  });
}

}  // namespace flow::cpu
