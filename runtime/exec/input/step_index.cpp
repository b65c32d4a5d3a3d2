// Arithmetic of epochs and batches.
#include "runtime/exec/input/step_index.h"

#include <algorithm>
#include <limits>

#include "runtime/base/check.h"

namespace flow::exec {

StepIndex::StepIndex(int64_t rows, int64_t batch, bool drop_incomplete)
    : rows_(rows), batch_(batch), drop_incomplete_(drop_incomplete) {
  FLOW_CHECK(rows >= 0 && batch > 0, "{} rows, batch {}", rows, batch);
  steps_per_epoch_ = rows / batch + (!drop_incomplete && rows % batch != 0 ? 1 : 0);
}

Position StepIndex::at(int64_t step) const {
  if (!has_rows()) return {};
  const int64_t in_epoch = step % steps_per_epoch_;
  const int64_t row = in_epoch * batch_;
  return {step / steps_per_epoch_, row, std::min(batch_, rows_ - row),
          in_epoch + 1 == steps_per_epoch_};
}

int64_t StepIndex::epochs_after(int64_t steps) const {
  return has_rows() && steps_per_epoch_ > 0 ? steps / steps_per_epoch_ : 0;
}

int64_t steps_of_epochs(int64_t epochs, int64_t steps_per_epoch) {
  int64_t steps = 0;
  if (__builtin_mul_overflow(epochs, steps_per_epoch, &steps))
    return std::numeric_limits<int64_t>::max();
  return steps;
}

int64_t Period::count(const StepIndex& index, int64_t after) const {
  return steps > 0 ? after / steps : index.epochs_after(after) / epochs;
}

int64_t Period::next_end(const StepIndex& index, int64_t after) const {
  const int64_t every = steps > 0 ? steps : steps_of_epochs(epochs, index.steps_per_epoch());
  int64_t end = 0;
  if (__builtin_mul_overflow(after / every + 1, every, &end))
    return std::numeric_limits<int64_t>::max();
  return end;
}

}  // namespace flow::exec
