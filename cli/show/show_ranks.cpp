// Buckets, slices and divided updates as a table.
#include "cli/show/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/shared/table.h"
#include "cli/show/plan_text.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/memory.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/ranks/buckets.h"
#include "runtime/exec/ranks/division.h"
#include "runtime/exec/ranks/identity.h"
#include "runtime/exec/run/executor.h"
#include "runtime/plan/json/fields.h"
#include "runtime/plan/model/shards.h"

namespace flow::cli {
namespace {

using plan::TensorId;

/// How a run divides its work among ranks. A device may divide fewer updates.
class Sharing {
 public:
  Sharing(const plan::Job& job, int ranks)
      : job_(job),
        ranks_(ranks),
        owners_(exec::share_memory(job, [](TensorId, TensorId) { return true; })),
        combined_(exec::list_combined(job, owners_)),
        updates_(exec::find_divided_updates(job, owners_, deliverables())),
        buckets_(exec::make_buckets(describe(), ranks)) {}

  std::string totals() const {
    size_t all = 0, divided = 0;
    for (const plan::Variable& variable : job_.variables)
      if (variable.slot) all += exec::bytes_of(job_[variable.tensor]);
    std::vector<size_t> slices(static_cast<size_t>(ranks_));
    for (const exec::Bucket& bucket : buckets_)
      if (bucket.divided) add_slots(bucket, slices, divided);
    return fmt::format(
        "  sent by a rank  {} a step, on average\n  slots           {}, on a rank at most {}\n",
        human_bytes(exec::bytes_sent(buckets_, ranks_)), human_bytes(all),
        human_bytes(all - divided + *std::ranges::max_element(slices)));
  }

  Table table() const {
    Table table;
    table.row({"combined tensor", "type", "by", "bucket", "added up by", "then sent"});
    for (size_t i = 0; i < buckets_.size(); ++i)
      for (const size_t tensor : buckets_[i].tensors) add_row(table, i, tensor);
    return table;
  }

 private:
  std::vector<TensorId> deliverables() const {
    const plan::UnshardedJob whole(job_);
    return exec::list_deliverables(job_, exec::list_deliveries(*whole, exec::StepIndex()));
  }

  const exec::DividedUpdate* update_of(size_t tensor) const {
    const TensorId owner = owners_[combined_[tensor].tensor.index()];
    const auto found = std::ranges::find_if(updates_, [&](const exec::DividedUpdate& update) {
      return owners_[update.gradient.index()] == owner;
    });
    return found == updates_.end() ? nullptr : &*found;
  }

  std::vector<exec::CombinedTensor> describe() const {
    std::vector<exec::CombinedTensor> tensors;
    for (size_t i = 0; i < combined_.size(); ++i) {
      const plan::Tensor& tensor = job_[combined_[i].tensor];
      tensors.push_back({tensor.shape.elements(), exec::total_size(tensor), size_of(tensor.dtype),
                         job_.steps[combined_[i].step].probe, update_of(i) != nullptr});
    }
    return tensors;
  }

  void add_slots(const exec::Bucket& bucket, std::vector<size_t>& slices, size_t& divided) const {
    for (size_t rank = 0; rank < slices.size(); ++rank)
      for (const exec::Slice& slice : bucket.slices[rank]) {
        const size_t bytes = update_of(slice.tensor)->slots.size() * sizeof(float) *
                             static_cast<size_t>(slice.end - slice.first);
        slices[rank] += bytes;
        divided += bytes;
      }
  }

  /// "rank 2", "ranks 0..3"
  std::string holders(const exec::Bucket& bucket, size_t tensor) const {
    if (bucket.small) return "all ranks";
    std::vector<size_t> found;
    for (size_t rank = 0; rank < bucket.slices.size(); ++rank)
      if (std::ranges::find(bucket.slices[rank], tensor, &exec::Slice::tensor) !=
          bucket.slices[rank].end())
        found.push_back(rank);
    return found.size() == 1 ? fmt::format("rank {}", found[0])
                             : fmt::format("ranks {}..{}", found.front(), found.back());
  }

  void add_row(Table& table, size_t index, size_t tensor) const {
    const exec::Bucket& bucket = buckets_[index];
    const plan::Tensor& made = job_[combined_[tensor].tensor];
    const std::string sent = bucket.small     ? "nothing"
                             : bucket.divided ? job_[update_of(tensor)->variable].name
                                              : "the result";
    table.row({made.name, type_of(made), std::string(plan::enum_name(*made.combine)),
               std::to_string(index), holders(bucket, tensor), sent});
  }

  const plan::Job& job_;
  const int ranks_;
  const std::vector<TensorId> owners_;
  const std::vector<exec::Combined> combined_;
  const std::vector<exec::DividedUpdate> updates_;
  const std::vector<exec::Bucket> buckets_;
};

}  // namespace

std::string show_ranks(const plan::Job& job, int ranks) {
  exec::require_ranks_divide(ranks, job);
  const int64_t shards = plan::shards_of(job);
  const Sharing sharing(job, ranks);
  return fmt::format("job {} on {}: {} of {} on each\n{}\n{}", escaped(job.name),
                     counted(static_cast<uint64_t>(ranks), "rank"), shards / ranks,
                     counted(static_cast<uint64_t>(shards), "shard"), sharing.totals(),
                     sharing.table().str());
}

}  // namespace flow::cli
