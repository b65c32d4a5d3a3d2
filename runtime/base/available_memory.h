// How much memory a program may still take.
#pragma once

#include <cstddef>

#include "runtime/base/file.h"

namespace flow {

/// Bytes that the system can give without swapping and that the process's control groups
/// (containers and batch systems set them) leave it; the largest number where neither says.
size_t available_memory();

/// Bytes left below the limits of the groups that `groups` lists, as /proc/self/cgroup does, and of
/// those around them, whose files are below `mount`. Versions 1 and 2 of Linux's control groups;
/// file pages that can be dropped count as free.
size_t left_in_groups(const fs::path& groups, const fs::path& mount);

}  // namespace flow
