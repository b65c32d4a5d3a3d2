// Files one after another; those of other programs that follow each other are mapped together.
#include "runtime/exec/checkpoint/loaded_variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/checkpoint/load.h"
#include "runtime/exec/weights/mapped_variables.h"

namespace flow::exec {
namespace {

using Parts = std::vector<std::unique_ptr<StoredVariables>>;

constexpr const char* kDrawn = "none";  // in the place of a path

Parts open_parts(const std::vector<LoadedPath>& paths, bool ema) {
  if (ema && paths.size() > 1)
    throw RequestError(
        fmt::format("--ema takes averages of one checkpoint; found {} paths to load", paths.size()),
        "load only the checkpoint, or omit --ema");
  Parts parts;
  for (const LoadedPath& loaded : paths) parts.push_back(open_variables(loaded.path, loaded.where));
  if (ema) parts[0] = std::make_unique<AveragedVariables>(std::move(parts[0]));
  return parts;
}

std::unique_ptr<StoredVariables> joined(Parts parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_unique<JoinedVariables>(std::move(parts));
}

/// Parts in groups of which each has names of one kind: those of flow, or others.
std::vector<Parts> grouped(Parts parts) {
  std::vector<Parts> groups;
  for (auto& part : parts) {
    if (groups.empty() || groups.back()[0]->has_names_of_flow() != part->has_names_of_flow())
      groups.emplace_back();
    groups.back().push_back(std::move(part));
  }
  return groups;
}

}  // namespace

JoinedVariables::JoinedVariables(Parts parts) : parts_(std::move(parts)) {
  std::vector<std::string> paths;
  for (const auto& part : parts_) {
    paths.push_back(part->path().string());
    for (const Item& item : part->items())
      found_.insert_or_assign(item.name, Found{part.get(), item});
  }
  path_ = join(paths, " and ");
}

std::vector<StoredVariables::Item> JoinedVariables::items() const {
  std::vector<Item> items;
  for (const auto& [name, found] : found_) items.push_back(found.item);
  return items;
}

Array JoinedVariables::read(const std::string& name) const {
  return found_.at(name).part->read(name);
}

bool JoinedVariables::is_replaced() const {
  return std::ranges::any_of(parts_, [](const auto& part) { return part->is_replaced(); });
}

bool JoinedVariables::has_names_of_flow() const {
  return std::ranges::all_of(parts_, [](const auto& part) { return part->has_names_of_flow(); });
}

std::vector<LoadedPath> loaded_paths(const plan::Job& job, const fs::path& root,
                                     const std::vector<std::string>& flags) {
  const plan::Checkpointing& own = job.run.checkpoint;
  std::vector<LoadedPath> paths;
  for (const std::string& flag : flags) paths.push_back({flag, "--load"});
  if (flags.empty())
    for (size_t i = 0; i < own.load.size(); ++i)
      paths.push_back({own.load[i], i < own.load_where.size() ? own.load_where[i] : job.where});
  if (paths.size() == 1 && paths[0].path == kDrawn) return {};
  for (LoadedPath& loaded : paths) {
    if (loaded.path == kDrawn)
      throw RequestError(fmt::format("{}: `none` and other paths", loaded.where),
                         "write only `none` to initialize the variables");
    if (flags.empty()) loaded.path = (root / loaded.path).lexically_normal();
  }
  return paths;
}

std::unique_ptr<StoredVariables> open_joined(const std::vector<LoadedPath>& paths, bool ema) {
  return joined(open_parts(paths, ema));
}

std::unique_ptr<StoredVariables> open_by_rules(const std::vector<LoadedPath>& paths, bool ema,
                                               const plan::Job& job,
                                               const std::vector<WantedVariable>& wanted,
                                               const std::vector<std::string>& optional) {
  Parts parts = open_parts(paths, ema);
  if (job.run.checkpoint.names.empty()) return joined(std::move(parts));
  std::vector<Parts> groups = grouped(std::move(parts));
  const MappedVariables::Missing missing =
      groups.size() > 1 ? MappedVariables::Missing::kAllowed : MappedVariables::Missing::kRefused;
  Parts mapped;
  for (Parts& group : groups) {
    auto part = joined(std::move(group));
    if (!part->has_names_of_flow())
      part = std::make_unique<MappedVariables>(std::move(part), job, wanted, optional, missing);
    mapped.push_back(std::move(part));
  }
  return joined(std::move(mapped));
}

}  // namespace flow::exec
