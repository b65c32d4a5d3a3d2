// Variables of .npz files.
#include "runtime/exec/stored_variables.h"

#include <fmt/format.h>

#include "runtime/base/error.h"
#include "runtime/io/npy.h"
#include "runtime/plan/names.h"

namespace flow::exec {

NpzVariables::NpzVariables(const fs::path& path) : path_(path), file_(path) {
  const io::Npz npz(file_.bytes(), path.string());
  for (const std::string& array : npz.arrays()) {
    if (!plan::is_safe_name(array))
      throw RequestError(fmt::format("{}: `{}` is no name of a variable", path.string(), array),
                         "variables are called as in `flowc show`: net/conv1/weight");
    members_.emplace(array, npz.read(array));
  }
  if (members_.empty()) throw RequestError(path.string() + " has no arrays");
}

std::vector<StoredVariables::Item> NpzVariables::items() const {
  std::vector<Item> items;
  for (const auto& [array, member] : members_) {
    const io::NpyHeader header = io::parse_npy_header(member.bytes, name_of(array));
    items.push_back({array, header.dtype, header.shape});
  }
  return items;
}

Array NpzVariables::read(const std::string& name) const {
  return io::parse_npy(members_.at(name).bytes, name_of(name));
}

std::string NpzVariables::name_of(const std::string& array) const {
  return fmt::format("{}: `{}`", path_.string(), array);
}

}  // namespace flow::exec
