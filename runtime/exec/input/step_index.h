// Where in its data a step reads: a pure function of the step, so that no stage has to tell
// another.
#pragma once

#include <cstdint>

namespace flow::exec {

struct Position {
  int64_t epoch = 0;
  int64_t row = 0;             // of the epoch, the first of the batch
  int64_t rows = 0;            // real rows in the batch; 0 where no dataset is read
  bool last_of_epoch = false;  // never where no dataset is read
};

/// How the rows of a dataset are cut into steps.
class StepIndex {
 public:
  /// No dataset: everything is epoch 0.
  StepIndex() = default;
  /// An incomplete last batch is dropped, or else is a batch with fewer real rows.
  /// REQUIRES: rows >= 0, batch > 0.
  StepIndex(int64_t rows, int64_t batch, bool drop_incomplete);

  bool has_rows() const { return batch_ > 0; }
  int64_t rows() const { return rows_; }
  int64_t batch() const { return batch_; }
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  /// Rows of the incomplete last batch; 0: there is none.
  int64_t incomplete_rows() const { return batch_ > 0 ? rows_ % batch_ : 0; }
  /// True when a call computes on more rows than are real.
  bool pads() const { return !drop_incomplete_ && incomplete_rows() != 0; }
  /// REQUIRES: steps_per_epoch() > 0 where has_rows().
  Position at(int64_t step) const;
  /// Epochs that are complete after `steps` steps.
  int64_t epochs_after(int64_t steps) const;

 private:
  int64_t rows_ = 0, batch_ = 0, steps_per_epoch_ = 0;
  bool drop_incomplete_ = true;
};

/// The steps of `epochs` epochs, or the largest number where that overflows.
int64_t steps_of_epochs(int64_t epochs, int64_t steps_per_epoch);

/// A number of steps, or of epochs: the other is 0.
struct Period {
  int64_t steps = 0, epochs = 0;

  /// How many of them are complete after `after` steps.
  int64_t count(const StepIndex& index, int64_t after) const;
  bool ends_at(const StepIndex& index, int64_t after) const {
    return after > 0 && count(index, after) > count(index, after - 1);
  }
  /// The next number of steps, more than `after`, at which one ends; the largest number for never.
  int64_t next_end(const StepIndex& index, int64_t after) const;
};

}  // namespace flow::exec
