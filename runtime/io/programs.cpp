// PATH, folder by folder.
#include "runtime/io/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace flow::io {

std::string hint_for_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  if (!path || name.find('/') != std::string::npos) return {};
  std::vector<std::string> names;
  std::error_code unreadable;
  for (const std::string& folder : split(path, ':'))
    for (fs::directory_iterator at(folder, unreadable), end; at != end; at.increment(unreadable))
      names.push_back(at->path().filename().string());
  if (std::ranges::count(names, name) > 0) return {};  // something else is missing
  const auto near = suggest(name, names);
  return near.empty() ? "" : fmt::format("did you mean `{}`?", near.front());
}

}  // namespace flow::io
