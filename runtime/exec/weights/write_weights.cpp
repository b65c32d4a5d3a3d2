// Writes arrays one after another: one is in memory at a time.
#include "runtime/exec/weights/write_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "runtime/base/error.h"
#include "runtime/base/folder.h"
#include "runtime/io/npz_writer.h"
#include "runtime/io/safetensors.h"

namespace flow::exec {
namespace {

constexpr const char* kNpzSuffix = ".npz";

bool is_safetensors(const fs::path& path) { return path.extension() == io::kSafetensorsSuffix; }

/// The scale of a loss is called JOB/loss_scale, and is one number.
bool is_loss_scale(const StoredItem& item) {
  const size_t slash = item.name.find('/');
  return item.shape.rank() == 0 && slash != item.name.npos &&
         item.name.substr(slash) == "/loss_scale";
}

void write_safetensors(File& file, const StoredVariables& stored,
                       const std::vector<OriginalArray>& arrays) {
  std::map<std::string, const OriginalArray*> by_name;
  std::vector<io::SafetensorsItem> items;
  for (const OriginalArray& array : arrays) {
    by_name[array.name] = &array;
    items.push_back({array.name, array.dtype, array.shape});
  }
  file.write(io::safetensors_header(items));
  for (const io::SafetensorsItem& item : items)
    file.write(make_original(stored, *by_name.at(item.name)).bytes());
}

void write_npz(File& file, const StoredVariables& stored,
               const std::vector<OriginalArray>& arrays) {
  io::NpzWriter writer(file);
  for (const OriginalArray& array : arrays)
    writer.add(array.name, make_original(stored, array).view());
  writer.finish();
}

}  // namespace

std::vector<StoredItem> weights_in(const StoredVariables& stored) {
  std::vector<StoredItem> items = stored.items();
  std::set<std::string> names;
  for (const StoredItem& item : items) names.insert(item.name);
  std::erase_if(items, [&](const StoredItem& item) {
    return is_loss_scale(item) || is_slot_name(item.name, names);
  });
  return items;
}

void require_weights_format(const fs::path& path) {
  if (!is_safetensors(path) && path.extension() != kNpzSuffix)
    throw RequestError(fmt::format("{} has no known format", path.string()),
                       "end the name in .safetensors or .npz, or for a job file in .onnx");
}

void write_weights(const fs::path& path, const StoredVariables& stored,
                   const std::vector<OriginalArray>& arrays) {
  require_weights_format(path);
  Replacement fresh(path);
  (is_safetensors(path) ? write_safetensors : write_npz)(fresh.file(), stored, arrays);
  fresh.file().sync();
  fresh.commit();
  Folder(path.parent_path()).sync();
}

}  // namespace flow::exec
