// Makes sums, and divides the updates of gradients whose buckets are worth it.
#include "runtime/cpu/backend/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/plan/model/operands.h"

namespace flow::cpu {
namespace {

/// Slices are of elements that lie as in C order.
bool is_plain(const SumsRequest& request, const exec::DividedUpdate& update) {
  return std::ranges::all_of(update.steps, [&](size_t step) {
    const size_t gradient = request.job.steps[step].inputs[0].index();
    return request.layouts[gradient] == Layout::kPlain ||
           layouts_coincide(request.job.tensors[gradient].shape);
  });
}

std::vector<exec::SlicedUpdate> find_updates(const SumsRequest& request, const ShardSums& sums) {
  if (!request.divides) return {};
  std::vector<plan::TensorId> entries;
  for (const ShardSums::Entry& entry : sums.entries()) entries.push_back(entry.tensor);
  std::vector<exec::SlicedUpdate> updates =
      exec::find_sliced_updates(request.job, request.owners, request.deliverables, entries);
  std::erase_if(
      updates, [&](const exec::SlicedUpdate& sliced) { return !is_plain(request, sliced.update); });
  return updates;
}

/// Do no steps of shards use the memory of the entry's tensor after the step that makes it?
bool is_final(const SumsRequest& request, const ShardSums::Entry& entry) {
  const auto is_same = [&](plan::TensorId id) {
    return id.valid() && request.owners[id.index()] == request.owners[entry.tensor.index()];
  };
  const std::span<const plan::Step> later =
      std::span(request.job.steps)
          .subspan(entry.step + 1, request.job.sharding->steps.index() - entry.step - 1);
  return std::ranges::none_of(later, [&](const plan::Step& step) {
    bool uses = std::ranges::any_of(step.outputs, is_same);
    plan::visit_operands(step, [&](plan::TensorId id) { uses = uses || is_same(id); });
    return uses;
  });
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
  std::vector<exec::SlicedUpdate> updates = find_updates(request, *sums.shards);
  std::vector<RankSums::Traits> traits;
  for (const ShardSums::Entry& entry : sums.shards->entries())
    traits.push_back(
        {.probe = request.job.steps[entry.step].probe, .final = is_final(request, entry)});
  for (const exec::SlicedUpdate& update : updates) traits[update.entry].divided = true;
  sums.ranks = std::make_unique<RankSums>(*sums.shards, traits, *request.ranks, request.threads);
  sums.division =
      exec::Division(request.job, std::move(updates), sums.ranks->buckets(), request.ranks->rank());
  return sums;
}

}  // namespace flow::cpu
