// Opens .safetensors files and copies arrays out of them.
#include "runtime/exec/weights/safetensors_variables.h"

#include <fmt/format.h>

#include <cstring>
#include <set>

#include "runtime/base/error.h"
#include "runtime/exec/weights/bounded_list.h"

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

}  // namespace flow::exec
