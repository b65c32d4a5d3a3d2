// Broadcasting loops over the axes in the result's memory order. Adjacent axes are merged if all
// operands allow it.
#include "runtime/cpu/loops/broadcast.h"

#include <numeric>

#include "runtime/base/host_device.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu {
namespace {

/// Returns true if, for every operand, one step of the outer loop equals `extent` steps of the
/// inner loop.
bool goes_on(const Broadcast::PerOperand& outer, const Broadcast::PerOperand& inner,
             int64_t extent) {
  for (size_t k = 0; k < Broadcast::kMost; ++k)
    if (outer[k] != inner[k] * extent) return false;
  return true;
}

}  // namespace

std::vector<int> memory_order(const TensorDesc& desc) {
  if (desc.layout == Layout::kChannelsLast && desc.shape.rank() == 4) return {0, 2, 3, 1};
  std::vector<int> order(static_cast<size_t>(desc.shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int64_t> strides_of(const TensorDesc& desc) {
  const std::vector<int> order = memory_order(desc);
  std::vector<int64_t> strides(order.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[static_cast<size_t>(order[i])] = stride;
    stride *= desc.shape[order[i]];
  }
  return strides;
}

std::vector<int64_t> broadcast_strides(const TensorDesc& desc, int rank) {
  std::vector<int64_t> strides(static_cast<size_t>(rank), 0);
  const std::vector<int64_t> own = strides_of(desc);
  const int first = rank - desc.shape.rank();
  for (int axis = 0; axis < desc.shape.rank(); ++axis)
    if (desc.shape[axis] != 1)
      strides[static_cast<size_t>(first + axis)] = own[static_cast<size_t>(axis)];
  return strides;
}

Broadcast::Broadcast(std::span<const TensorDesc> operands, const TensorDesc& out) {
  std::vector<std::vector<int64_t>> strides;
  for (const TensorDesc& operand : operands)
    strides.push_back(broadcast_strides(operand, out.shape.rank()));
  for (int axis : memory_order(out)) {
    Loop loop{out.shape[axis], {}};
    if (loop.extent == 1) continue;
    for (size_t k = 0; k < strides.size(); ++k)
      loop.strides[k] = strides[k][static_cast<size_t>(axis)];
    if (!loops_.empty() && goes_on(loops_.back().strides, loop.strides, loop.extent))
      loops_.back() = {loops_.back().extent * loop.extent, loop.strides};
    else
      loops_.push_back(loop);
  }
  while (loops_.size() < 2) loops_.insert(loops_.begin(), Loop{1, {}});
  const int64_t columns = loops_.back().extent;
  rows_ = out.shape.elements() / std::max<int64_t>(columns, 1);
  pieces_ = ceil_div(columns, kPiece);
  rows_per_chunk_ = std::max<int64_t>(1, kPiece / std::max<int64_t>(columns, 1));
  chunks_ = pieces_ > 1 ? rows_ * pieces_ : ceil_div(rows_, rows_per_chunk_);
}

Broadcast::Block Broadcast::from_row(int64_t row, int64_t end) const {
  const Loop &rows = loops_[loops_.size() - 2], &columns = loops_.back();
  Block block;
  block.columns = columns.extent;
  block.column = columns.strides;
  block.row = rows.strides;
  block.out = row * columns.extent;
  int64_t rest = row;
  for (size_t i = loops_.size() - 1; i-- > 0;) {
    const int64_t index = rest % loops_[i].extent;
    rest /= loops_[i].extent;
    for (size_t k = 0; k < kMost; ++k) block.first[k] += index * loops_[i].strides[k];
  }
  block.rows = std::min(end - row, rows.extent - row % rows.extent);
  return block;
}

Broadcast::Block Broadcast::piece(int64_t chunk) const {
  const int64_t row = chunk / pieces_, first = chunk % pieces_ * kPiece;
  Block block = from_row(row, row + 1);
  block.columns = std::min(kPiece, block.columns - first);
  for (size_t k = 0; k < kMost; ++k) block.first[k] += first * block.column[k];
  block.out += first;
  return block;
}

}  // namespace flow::cpu
