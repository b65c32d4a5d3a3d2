// Checks what a name inside a directory leads to, before and while it is read.
#include "runtime/base/inner_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace flow {
std::string link_problem(const fs::path& link, const fs::path& directory) {
  std::error_code broken;
  const fs::path target = fs::canonical(link, broken);
  if (broken) return "a broken link";
  const fs::path inside = fs::canonical(directory, broken);
  if (std::ranges::mismatch(target, inside).in2 == inside.end()) return {};
  return fmt::format("a link to {}, outside the directory", target.string());
}

void require_link_inside(const fs::path& directory, const fs::path& link) {
  if (const std::string problem = link_problem(link, directory); !problem.empty())
    throw RequestError(fmt::format("{} is {}", link.string(), problem), kReplaceLink);
}

void require_inside(const fs::path& directory, const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw cannot("read", path, error ? error.value() : ENOENT);
  require_link_inside(directory, path);
  if (!fs::is_regular_file(path, error))
    throw RequestError(fmt::format("{} is not a file", path.string()), "remove or rename it");
}

std::string read_inside(const fs::path& directory, const fs::path& path, uint64_t most) {
  require_inside(directory, path);
  const auto require_small = [&](uint64_t size) {
    if (size > most)
      throw RequestError(fmt::format("{} has more than {} MiB", path.string(), most >> 20),
                         "restore the file that was there");
  };
  std::error_code gone;  // then it cannot be mapped
  if (const uint64_t size = fs::file_size(path, gone); !gone) require_small(size);
  const MappedFile file(path);  // opened without waiting, and refuses what took its place
  require_small(file.bytes().size());
  std::string text;
  file.recovering([&] {
    text.assign(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  });
  return text;
}

std::optional<std::string> read_if_there(const fs::path& directory, const char* name,
                                         uint64_t most) {
  std::error_code unknown;
  const fs::path path = directory / name;
  if (!fs::exists(fs::symlink_status(path, unknown))) return {};
  return read_inside(directory, path, most);
}

}  // namespace flow
