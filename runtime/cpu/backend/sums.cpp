// Makes sums, and divides the updates of gradients whose buckets are worth it.
#include "runtime/cpu/backend/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/cpu/backend/layout.h"

namespace flow::cpu {
namespace {

/// The entry of the tensor that lies where the gradient does.
size_t entry_of(const SumsRequest& request, const ShardSums& sums, plan::TensorId gradient) {
  const auto owner = [&](plan::TensorId id) { return request.owners[id.index()]; };
  const auto entry = std::ranges::find_if(sums.entries(), [&](const ShardSums::Entry& one) {
    return owner(one.tensor) == owner(gradient);
  });
  FLOW_CHECK(entry != sums.entries().end(), "gradient {}", gradient.value);
  return static_cast<size_t>(entry - sums.entries().begin());
}

/// Slices are of elements that lie as in C order.
bool is_plain(const SumsRequest& request, const exec::DividedUpdate& update) {
  return std::ranges::all_of(update.steps, [&](size_t step) {
    const size_t gradient = request.job.steps[step].inputs[0].index();
    return request.layouts[gradient] == Layout::kPlain ||
           layouts_coincide(request.job.tensors[gradient].shape);
  });
}

std::vector<SlicedUpdate> find_updates(const SumsRequest& request, const ShardSums& sums) {
  std::vector<SlicedUpdate> updates;
  if (!request.divides) return updates;
  for (exec::DividedUpdate& update :
       exec::find_divided_updates(request.job, request.owners, request.deliverables)) {
    const size_t entry = entry_of(request, sums, update.gradient);
    if (is_plain(request, update)) updates.push_back({std::move(update), entry, {}});
  }
  return updates;
}

/// Libraries count the bytes of an operation in int.
void require_exchangeable(const plan::Job& job, const ShardSums& sums) {
  for (const ShardSums::Entry& entry : sums.entries()) {
    const size_t bytes = static_cast<size_t>(entry.elements) * entry.total_size;
    if (bytes > exec::Collectives::kMostBytes)
      throw RunError(fmt::format("{}: `{}` has {} to add up; ranks exchange at most {} of a tensor",
                                 job[entry.tensor].where, job[entry.tensor].name,
                                 human_bytes(bytes), human_bytes(exec::Collectives::kMostBytes)),
                     "use one process");
  }
}

}  // namespace

Sums make_sums(const SumsRequest& request) {
  Sums sums;
  if (!request.job.sharding) return sums;
  const int ranks = request.ranks ? request.ranks->size() : 1;
  sums.shards = std::make_unique<ShardSums>(request.job, request.owners, ranks);
  if (!request.ranks) return sums;
  require_exchangeable(request.job, *sums.shards);
  std::vector<SlicedUpdate> updates = find_updates(request, *sums.shards);
  std::vector<RankSums::Traits> traits;
  for (const ShardSums::Entry& entry : sums.shards->entries())
    traits.push_back({request.job.steps[entry.step].probe});
  for (const SlicedUpdate& update : updates) traits[update.entry].divided = true;
  sums.ranks = std::make_unique<RankSums>(*sums.shards, traits, *request.ranks, request.threads);
  for (SlicedUpdate& update : updates) update.bounds = sums.ranks->bounds(update.entry);
  std::erase_if(updates, [](const SlicedUpdate& update) { return update.bounds.empty(); });
  sums.division = Division(request.job, std::move(updates), request.ranks->rank());
  return sums;
}

}  // namespace flow::cpu
