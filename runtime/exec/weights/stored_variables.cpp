// Variables of .npz files.
#include "runtime/exec/weights/stored_variables.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/io/npy.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

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

}  // namespace flow::exec
