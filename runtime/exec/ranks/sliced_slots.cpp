// Parts of optimizer slots on their way to rank 0.
#include "runtime/exec/ranks/sliced_slots.h"

#include "runtime/exec/ranks/together.h"

namespace flow::exec {

SlicedSlots::SlicedSlots(const Division& division, Collectives& ranks) : ranks_(ranks) {
  const auto bytes = [](int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); };
  for (const SlicedUpdate& sliced : division.updates()) {
    Slot slot{bytes(sliced.first), bytes(sliced.elements()), {}, {}};
    for (size_t rank = 0; rank + 1 < sliced.bounds.size(); ++rank) {
      const int64_t first = sliced.bounds[rank], end = sliced.bounds[rank + 1];
      slot.offsets.push_back(ranks.rank() == 0 ? bytes(first) : 0);
      slot.bytes.push_back(bytes(end - first));
    }
    for (const plan::TensorId id : sliced.update.slots) slots_.emplace(id, slot);
  }
}

void SlicedSlots::gather(plan::TensorId slot, std::byte* memory) const {
  const Slot& found = slots_.at(slot);
  gather_at(ranks_, 0, {memory, found.offsets, found.bytes});
}

}  // namespace flow::exec
