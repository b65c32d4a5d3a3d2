// What the system and its control groups say of memory.
#include "runtime/base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace flow {
namespace {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

/// Names of a version's files.
struct Version {
  const char *limit, *usage, *droppable;
};
constexpr Version kFirst{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Version kSecond{"memory.max", "memory.current", "inactive_file"};

/// A file's number; nothing where there is none, as in "max".
std::optional<size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  size_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The number behind a key, of lines "key number".
size_t number_of(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  std::string key, rest;
  for (size_t number = 0; file >> key >> number; std::getline(file, rest))
    if (key == wanted) return number;
  return 0;
}

/// `group`: a folder, with a slash at its end.
size_t left_in(const std::string& group, const Version& version) {
  const std::optional<size_t> limit = number_in(group + version.limit);
  const std::optional<size_t> usage = number_in(group + version.usage);
  if (!limit || !usage) return kNoLimit;
  const size_t droppable = number_of(group + "memory.stat", version.droppable);
  const size_t held = *usage - std::min(*usage, droppable);
  return *limit - std::min(*limit, held);
}

}  // namespace

size_t left_in_groups(const fs::path& groups, const fs::path& mount) {
  size_t left = kNoLimit;
  std::ifstream list(groups);
  for (std::string line; std::getline(list, line);) {  // "4:memory:/job/step", "0::/job/step"
    const size_t kinds = line.find(':') + 1, name = line.find(':', kinds) + 1;
    if (kinds == 0 || name == 0) continue;
    const std::string kind = line.substr(kinds, name - 1 - kinds);
    if (kind != "memory" && !kind.empty()) continue;
    const bool second = kind.empty();
    // Text: paths of libstdc++ 12 crash where they find no memory to grow.
    const std::string top = mount.string() + (second ? "" : "/memory");
    for (std::string group = line.substr(name);; group.resize(group.rfind('/'))) {
      left = std::min(left, left_in(top + group + '/', second ? kSecond : kFirst));
      if (group.find('/') == std::string::npos) break;
    }
  }
  return left;
}

size_t available_memory() {
  const size_t kibibytes = number_of("/proc/meminfo", "MemAvailable:");
  const size_t system = kibibytes == 0 ? kNoLimit : kibibytes * 1024;  // 0: it does not say
  return std::min(system, left_in_groups("/proc/self/cgroup", "/sys/fs/cgroup"));
}

}  // namespace flow
