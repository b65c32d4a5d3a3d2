// Loads variables from checkpoints and other files, and explains why they do not fit. Consecutive
// files from other programs are mapped together.
#include "runtime/exec/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/io/elements.h"
#include "runtime/io/safetensors.h"
#include "runtime/plan/model/name_rules.h"

namespace flow::exec {
namespace {

using Item = StoredVariables::Item;
using Items = std::map<std::string, Item>;

Items items_by_name(const StoredVariables& stored) {
  Items items;
  for (StoredVariables::Item& item : stored.items()) items.emplace(item.name, item);
  return items;
}

bool fits(const State::Entry& entry, const Items& items) {
  const auto found = items.find(entry.tensor->name);
  return found != items.end() && found->second.shape == entry.tensor->shape &&
         is_convertible(found->second, entry.tensor->dtype);
}

std::string line(bool matches, std::string_view name, const Shape& shape, std::string_view dtype) {
  return fmt::format("\n  {} {} {} {}", matches ? ' ' : '!', name, shape.str(), dtype);
}

/// Returns the lists of variables and of arrays; `!` marks those that do not fit.
std::string both_lists(const StoredVariables& stored, const std::vector<State::Entry*>& wanted,
                       const Items& items, const plan::Job& job) {
  std::string text = fmt::format("\n  job `{}` has", job.name);
  std::map<std::string_view, bool> matches;
  for (const State::Entry* entry : wanted) {
    const bool match = matches[entry->tensor->name] = fits(*entry, items);
    text += line(match, entry->tensor->name, entry->tensor->shape, name_of(entry->tensor->dtype));
  }
  text += stored.has_names_of_flow() ? "\n  the loaded checkpoint has" : "\n  the loaded file has";
  constexpr size_t kMost = 1000;
  size_t count = 0;
  for (const auto& [name, item] : items) {
    if (is_slot_name(name, items) || ++count > kMost) continue;
    const auto found = matches.find(name);
    text += line(found == matches.end() || found->second, name, item.shape, item.dtype_name());
  }
  if (count > kMost) text += fmt::format("\n    and {} more", count - kMost);
  return text;
}

/// Returns the job's variables, with or without slots.
std::vector<State::Entry*> list_wanted(State& state, bool slots) {
  std::vector<State::Entry*> wanted;
  for (State::Entry& entry : state.entries())
    if (slots || !entry.variable->slot) wanted.push_back(&entry);
  return wanted;
}

/// Returns true if conversion between two float dtypes can lose numbers. Each of the two 16-bit
/// dtypes lacks some numbers of the other.
bool rounds(DType from, DType to) {
  return size_of(from) > size_of(to) || (size_of(from) == size_of(to) && from != to);
}

/// Reads the variables that fit, and lists the others.
Loaded read_fitting(const StoredVariables& stored, const Items& items,
                    const std::vector<State::Entry*>& wanted) {
  Loaded loaded;
  for (State::Entry* entry : wanted) {
    if (!fits(*entry, items)) {
      loaded.missing.push_back(entry);
      continue;
    }
    Array value = stored.read(entry->tensor->name);
    // The list comes from headers, and the file may have changed since.
    const Item& item = items.at(entry->tensor->name);
    if (value.shape() != item.shape || value.dtype() != item.dtype)
      throw RunError(fmt::format("{} changed while it was read", stored.path().string()));
    if (rounds(value.dtype(), entry->tensor->dtype))
      ++loaded.rounded[{value.dtype(), entry->tensor->dtype}];
    entry->value = value.dtype() == entry->tensor->dtype
                       ? std::move(value)
                       : convert(value, entry->tensor->dtype, entry->tensor->name);
  }
  return loaded;
}

/// Returns the arrays that are neither variables nor the state of an optimizer.
std::vector<std::string> unused_names(const StoredVariables& stored,
                                      const std::vector<State::Entry*>& wanted) {
  std::set<std::string_view> used;
  for (const State::Entry* entry : wanted) used.insert(entry->tensor->name);
  std::vector<std::string> names;
  for (const Item& item : weights_in(stored))
    if (!used.contains(item.name)) names.push_back(item.name);
  return names;
}

void require_fitting(const StoredVariables& stored, const Items& items,
                     const std::vector<State::Entry*>& wanted, const plan::Job& job,
                     const std::vector<std::string>& optional, const std::string& hint) {
  std::vector<State::Entry*> needed;  // variables that fit or that must fit
  std::ranges::copy_if(wanted, std::back_inserter(needed), [&](const State::Entry* entry) {
    return fits(*entry, items) || std::ranges::none_of(optional, [&](const std::string& glob) {
             return glob_match(glob, entry->tensor->name);
           });
  });
  const auto misfits = std::ranges::count_if(
      needed, [&](const State::Entry* entry) { return !fits(*entry, items); });
  if (misfits > 0)
    throw RequestError(
        fmt::format("{} does not match: {} of {} variables are missing or have a different shape{}",
                    stored.path().string(), misfits, needed.size(),
                    both_lists(stored, needed, items, job)),
        hint);
}

/// Returns what to do if variables do not fit. `any` is true if the file has an array with the name
/// of any variable.
std::string hint_for(const StoredVariables& stored, const Items& items,
                     const std::vector<State::Entry*>& wanted, bool any) {
  if (!any)
    return stored.has_names_of_flow()
               ? "rename the variables: they are matched by name, and none match"
               : "map the names of the arrays with `names` of the checkpoint section; "
                 "`flowc names FILE WEIGHTS` proposes rules";
  for (const State::Entry* entry : wanted)
    if (const auto found = items.find(entry->tensor->name);
        found != items.end() && !is_convertible(found->second, entry->tensor->dtype))
      return fmt::format("`{}` is {}; save it as float16, bfloat16, float32 or float64",
                         found->first, found->second.dtype_name());
  if (stored.has_names_of_flow())
    return "repeat the --set options of that run (see its run.json), or initialize variables with "
           "--load-partial GLOB";
  for (const State::Entry* entry : wanted) {
    const std::string& name = entry->tensor->name;
    const auto found = items.find(name);
    const plan::NameRule rule{.from = {name}, .to = {name}, .perm = {1, 0}};
    if (found != items.end() && io::are_transposed(found->second.shape, entry->tensor->shape) &&
        plan::faults_of(rule).empty())
      return fmt::format("`{}` is transposed; add a rule to `names` of the checkpoint section: {}",
                         name, yaml_text(rule));
  }
  return "list names and shapes with `flowc names FILE WEIGHTS`, or initialize variables with "
         "--load-partial GLOB";
}

using Parts = std::vector<std::unique_ptr<StoredVariables>>;

constexpr const char* kDrawn = "none";  // given instead of a path if variables are drawn

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

/// Divides consecutive parts into groups with names of the same kind: names of flow, or of other
/// programs.
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

std::unique_ptr<StoredVariables> open_variables(const fs::path& path, const std::string& where) {
  if (io::is_checkpoint(path)) return std::make_unique<Checkpoint>(path);
  if (const auto newest = io::CheckpointFolder(path).newest())
    return std::make_unique<Checkpoint>(*newest);
  const fs::path named = (path / "").parent_path();  // the path without a slash at its end
  // Shells complete a run's path to RUN/checkpoints.
  if (named.filename() == io::kCheckpointsFolder || named.filename() == kBestFolder)
    if (const auto newest = io::CheckpointFolder::at_path(named).newest())
      return std::make_unique<Checkpoint>(*newest);
  std::error_code ignored;
  const bool file = fs::is_regular_file(path, ignored);
  if (file && path.extension() == ".npz") return std::make_unique<NpzVariables>(path);
  if (const auto found = io::find_safetensors(named))
    return std::make_unique<SafetensorsVariables>(*found);
  if (file)
    throw RequestError(fmt::format("{}: {} is not a checkpoint, a .safetensors file or an .npz",
                                   where, path.string()),
                       "save the variables of another program with "
                       R"(numpy.savez("x.npz", **{"net/fc/weight": array}))");
  throw RequestError(
      fmt::format("{}: {} {}", where, path.string(),
                  fs::exists(path, ignored)
                      ? "is not a checkpoint, a run with one in checkpoints/, or a folder with a "
                        ".safetensors file"
                      : "does not exist"),
      "name a run or a directory in its checkpoints/; to create one, train the job first");
}

Loaded load(const StoredVariables& stored, const plan::Job& job, State& state,
            const std::vector<std::string>& optional) {
  const std::vector<State::Entry*> wanted = list_wanted(state, false);
  for (const std::string& glob : optional)
    if (std::ranges::none_of(wanted, [&](const State::Entry* entry) {
          return glob_match(glob, entry->tensor->name);
        }))
      throw RequestError("--load-partial: " + no_match("variable", glob),
                         "`*` matches within one part of a name, `**` also matches `/`");
  const Items items = items_by_name(stored);
  const bool any = std::ranges::any_of(
      wanted, [&](const State::Entry* entry) { return items.contains(entry->tensor->name); });
  require_fitting(stored, items, wanted, job, any ? optional : std::vector<std::string>{},
                  hint_for(stored, items, wanted, any));
  Loaded loaded = read_fitting(stored, items, wanted);
  loaded.from = stored.path().string();
  if (!stored.has_names_of_flow()) loaded.unused = unused_names(stored, wanted);
  return loaded;
}

void resume(const Checkpoint& checkpoint, const plan::Job& job, State& state) {
  const Items items = items_by_name(checkpoint);
  const std::vector<State::Entry*> wanted = list_wanted(state, true);
  require_fitting(checkpoint, items, wanted, job, {}, "");
  read_fitting(checkpoint, items, wanted);
}

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

/// If several parts have a column, the last one is used, as for variables.
data::Learned JoinedVariables::learned() const {
  data::Learned learned;
  for (const auto& part : parts_)
    for (const auto& [name, column] : part->learned()) learned[name] = column;
  return learned;
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
