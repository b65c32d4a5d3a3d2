// Variables from checkpoints, and what is said when they do not fit.
#include "runtime/exec/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/exec/rounding.h"
#include "runtime/plan/serialize.h"

namespace flow::exec {

namespace {

using Items = std::map<std::string, Checkpoint::Item>;

Items items_by_name(const Checkpoint& checkpoint) {
  Items items;
  for (Checkpoint::Item& item : checkpoint.items()) items.emplace(item.name, item);
  return items;
}

bool convertible(DType from, DType to) {
  const auto wide = [](DType dtype) {
    return dtype == DType::kFloat32 || dtype == DType::kFloat64;
  };
  return from == to || (wide(from) && wide(to));
}

bool fits(const State::Entry& entry, const Items& items) {
  const auto found = items.find(entry.tensor->name);
  return found != items.end() && found->second.shape == entry.tensor->shape &&
         convertible(found->second.dtype, entry.tensor->dtype);
}

std::string line(bool matches, std::string_view name, const Shape& shape, DType dtype) {
  return fmt::format("\n  {} {} {} {}", matches ? ' ' : '!', name, shape.str(), name_of(dtype));
}

/// Both lists, what does not fit marked with `!`.
std::string both_lists(const std::vector<const State::Entry*>& wanted, const Items& items,
                       const plan::Job& job) {
  std::string text = fmt::format("\n  job `{}` has", job.name);
  std::map<std::string_view, bool> matches;
  for (const State::Entry* entry : wanted) {
    const bool match = matches[entry->tensor->name] = fits(*entry, items);
    text += line(match, entry->tensor->name, entry->tensor->shape, entry->tensor->dtype);
  }
  text += "\n  the checkpoint has";
  for (const auto& [name, item] : items) {
    const auto found = matches.find(name);
    text += line(found == matches.end() || found->second, name, item.shape, item.dtype);
  }
  return text;
}

void read_fitting(const Checkpoint& checkpoint, const plan::Job& job, State& state, bool slots) {
  const Items items = items_by_name(checkpoint);
  std::vector<const State::Entry*> wanted;
  for (const State::Entry& entry : state.entries())
    if (slots || !entry.variable->slot) wanted.push_back(&entry);
  const auto misfits = std::ranges::count_if(
      wanted, [&](const State::Entry* entry) { return !fits(*entry, items); });
  if (misfits > 0)
    throw RequestError(fmt::format("{} does not fit: {} of {} variables are missing or misshapen{}",
                                   checkpoint.path().string(), misfits, wanted.size(),
                                   both_lists(wanted, items, job)));
  for (State::Entry& entry : state.entries()) {
    if (entry.variable->slot && !slots) continue;
    Array value = checkpoint.read(entry.tensor->name);
    // The list was made of headers; the file may have changed since.
    if (value.shape() != entry.tensor->shape || !convertible(value.dtype(), entry.tensor->dtype))
      throw RunError(fmt::format("{} changed while it was read", checkpoint.path().string()));
    entry.value = value.dtype() == entry.tensor->dtype
                      ? std::move(value)
                      : convert(value, entry.tensor->dtype, entry.tensor->name);
  }
}

}  // namespace

Checkpoint open_checkpoint(const fs::path& path, const std::string& where) {
  if (is_checkpoint(path)) return Checkpoint(path);
  if (const auto newest = CheckpointFolder(path).newest()) return Checkpoint(*newest);
  std::error_code ignored;
  throw RequestError(
      fmt::format("{}: {} {}", where, path.string(),
                  fs::exists(path, ignored) ? "is no checkpoint, nor a run with one in checkpoints/"
                                            : "does not exist"),
      "a checkpoint is a directory with a checkpoint.json; train the job that makes it first");
}

void load(const Checkpoint& checkpoint, const plan::Job& job, State& state) {
  read_fitting(checkpoint, job, state, false);
}

void resume(const Checkpoint& checkpoint, const plan::Job& job, const std::string& hash,
            State& state) {
  if (checkpoint.record().resume_hash != hash)
    throw RequestError(
        fmt::format("{} was written by another job than this `{}`: what it computes has changed",
                    checkpoint.path().string(), job.name),
        "resume with the job file and the overrides of the run (its plan.json has them), or start "
        "a new run with --load");
  read_fitting(checkpoint, job, state, true);
}

}  // namespace flow::exec
