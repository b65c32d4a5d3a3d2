// Reads the variables of .npz and .safetensors files.
#include "runtime/exec/weights/stored_variables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/io/npy.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {
namespace {

io::SafetensorsIndex read_index(const fs::path& path) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() > io::kLongestSafetensorsHeader)
    throw RunError(fmt::format("{} has {} bytes; expected at most {}", path.string(), bytes.size(),
                               io::kLongestSafetensorsHeader));
  return io::parse_safetensors_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                     path.string());
}

}  // namespace

bool is_convertible(const StoredVariables::Item& item, DType to) {
  return item.foreign.empty() && (item.dtype == to || (is_float(item.dtype) && is_float(to)));
}

NpzVariables::NpzVariables(const fs::path& path)
    : path_(path), file_(path), npz_(file_.bytes(), path.string()) {
  const std::vector<std::string> arrays = npz_.arrays();
  for (const std::string& array : arrays)
    if (!is_safe_name(array))
      throw RequestError(fmt::format("{}: invalid variable name `{}`", path.string(), array),
                         "use names as in `flowc show --steps`, such as net/conv1/weight");
  if (arrays.empty()) throw RequestError(path.string() + " has no arrays");
}

std::vector<StoredVariables::Item> NpzVariables::items() const {
  std::vector<Item> items;
  for (const std::string& array : npz_.arrays()) {
    const io::NpyHeader header = npz_.header(array);
    items.push_back({array, header.dtype, header.shape});
  }
  return items;
}

Array NpzVariables::read(const std::string& name) const {
  return io::parse_npy(npz_.read(name).bytes, fmt::format("{}: `{}`", path_.string(), name));
}

AveragedVariables::AveragedVariables(std::unique_ptr<StoredVariables> all) : all_(std::move(all)) {
  std::map<std::string, Item> items;
  for (Item& item : all_->items()) items.emplace(item.name, std::move(item));
  for (const auto& [name, item] : items)
    if (const auto average = items.find(plan::average_of(name)); average != items.end())
      averages_.emplace(name, average->second);
  if (averages_.empty())
    throw RequestError(fmt::format("--ema: {} has no averages of variables", path().string()),
                       "train with `ema: {decay: 0.999}` in the optimizer, or omit --ema");
}

std::vector<StoredVariables::Item> AveragedVariables::items() const {
  std::vector<Item> items = all_->items();
  for (Item& item : items)
    if (const auto average = averages_.find(item.name); average != averages_.end())
      item = {item.name, average->second.dtype, average->second.shape, average->second.foreign};
  return items;
}

Array AveragedVariables::read(const std::string& name) const {
  return all_->read(averages_.contains(name) ? plan::average_of(name) : name);
}

SafetensorsVariables::SafetensorsVariables(const fs::path& path) : path_(path) {
  if (io::is_safetensors_index(path)) {
    open_set();
    return;
  }
  const Shard& shard = shards_.try_emplace(path.filename().string(), path).first->second;
  for (const auto& [name, entry] : shard.arrays.arrays()) arrays_[name] = {&shard, &entry};
}

void SafetensorsVariables::open_set() {
  const io::SafetensorsIndex index = read_index(path_);
  const fs::path folder = path_.parent_path();
  std::set<std::string> names;
  std::vector<std::string> missing;
  for (const auto& [array, file] : index) names.insert(file);
  for (const std::string& name : names)
    if (std::error_code ignored; !fs::is_regular_file(folder / name, ignored))
      missing.push_back(name);
  if (!missing.empty())
    throw RunError(
        fmt::format("{} names files that are missing:{}", path_.string(), bounded_list(missing)),
        "put all files of the set into one folder");
  for (const std::string& name : names) shards_.try_emplace(name, folder / name);
  for (const auto& [array, file] : index) {
    const Shard& shard = shards_.at(file);
    const auto found = shard.arrays.arrays().find(array);
    if (found == shard.arrays.arrays().end())
      missing.push_back(fmt::format("{} in {}", array, file));
    else
      arrays_[array] = {&shard, &found->second};
  }
  if (!missing.empty())
    throw RunError(
        fmt::format("{} names arrays that are missing:{}", path_.string(), bounded_list(missing)),
        "get the whole set again; its files belong to different versions");
}

std::vector<StoredVariables::Item> SafetensorsVariables::items() const {
  std::vector<Item> items;
  for (const auto& [name, found] : arrays_) {
    const io::Safetensors::Entry& entry = *found.entry;
    items.push_back({name, entry.dtype.value_or(DType::kUInt8), entry.shape,
                     entry.dtype ? std::string_view() : entry.code});
  }
  return items;
}

Array SafetensorsVariables::read(const std::string& name) const {
  const auto& [shard, entry] = arrays_.at(name);
  FLOW_CHECK(entry->dtype.has_value(), "an array of dtype {}", entry->code);
  Array array(*entry->dtype, entry->shape);
  const std::span<const std::byte> bytes = shard->arrays.bytes_of(*entry);
  shard->file.recovering([&] {
    if (!bytes.empty()) std::memcpy(array.bytes().data(), bytes.data(), bytes.size());
  });
  return array;
}

std::string bounded_list(std::span<const std::string> lines) {
  constexpr size_t kMost = 40;
  std::string text;
  for (const std::string& line : lines.first(std::min(lines.size(), kMost))) text += "\n  " + line;
  if (lines.size() > kMost) text += fmt::format("\n  and {} more", lines.size() - kMost);
  return text;
}

}  // namespace flow::exec
