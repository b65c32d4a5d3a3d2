// Which indices of bags count.
#include "ops/embedding_bag/cpu_bags.h"

namespace flow::cpu {

BagMarks::BagMarks(const Request& request)
    : indices_(request, request.inputs[0], request.step.attributes.get<int64_t>("extent")),
      count_(request.inputs[0].shape[request.inputs[0].shape.rank() - 1]) {
  if (request.inputs.size() > 1) lengths_.emplace(request, request.inputs[1], count_ + 1);
  if (const plan::Attribute* padding = request.step.attributes.find("padding"))
    padding_ = std::get<int64_t>(*padding);
}

void BagMarks::run(const Buffers& buffers, const CallState& state) const {
  if (lengths_) lengths_->run(buffers.inputs[1], state);
  auto* marked = output<int64_t>(buffers, 0);
  const std::byte* indices = buffers.inputs[0];
  for (int64_t first = 0, bag = 0; first < indices_.rows; first += count_, ++bag) {
    const int64_t length = lengths_ ? integer_at(lengths_->dtype, buffers.inputs[1], bag) : count_;
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t index = integer_at(indices_.dtype, indices, first + i);
      const bool counts = i < length && index != padding_;
      if (counts) indices_.check(index, first + i, state);
      marked[first + i] = counts ? index : -1;
    }
  }
}

}  // namespace flow::cpu
