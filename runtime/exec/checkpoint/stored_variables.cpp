// Variables of .npz files.
#include "runtime/exec/checkpoint/stored_variables.h"

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/io/npy.h"

namespace flow::exec {

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

}  // namespace flow::exec
