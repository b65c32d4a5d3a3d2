// Files that a program opens by a fixed name inside a directory. The name may lead anywhere: to a
// pipe, to a file outside the directory, to one that is too large.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/file.h"

namespace flow {

/// "a broken link", "a link to TARGET, outside the directory"; empty where the target of `link` is
/// inside `directory`. Follows links above the name, too.
std::string link_problem(const fs::path& link, const fs::path& directory);

/// What to do about such a link.
inline constexpr const char* kReplaceLink = "remove the link or replace it with its target";

/// RequestError where link_problem finds one.
void require_link_inside(const fs::path& directory, const fs::path& link);

/// RequestError unless `path` is a regular file inside `directory`, after its links. RunError where
/// there is none. `directory` itself may be a link.
void require_inside(const fs::path& directory, const fs::path& path);

/// Records of runs and of golden directories, and plans of runs, are not larger.
inline constexpr uint64_t kLargestRecord = uint64_t{64} << 20, kLargestPlan = uint64_t{256} << 20;

/// The text of such a file, of at most `most` bytes, read without waiting for a writer. Errors as
/// those of require_inside; RequestError for a larger one.
std::string read_inside(const fs::path& directory, const fs::path& path, uint64_t most);
/// The same of the file of that name in `directory`; nothing where there is none.
std::optional<std::string> read_if_there(const fs::path& directory, const char* name,
                                         uint64_t most);

}  // namespace flow
