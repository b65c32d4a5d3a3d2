// Cuts lists in messages.
#include "runtime/exec/weights/bounded_list.h"

#include <fmt/format.h>

#include <algorithm>

namespace flow::exec {

std::string bounded_list(std::span<const std::string> lines) {
  constexpr size_t kMost = 40;
  std::string text;
  for (const std::string& line : lines.first(std::min(lines.size(), kMost))) text += "\n  " + line;
  if (lines.size() > kMost) text += fmt::format("\n  and {} more", lines.size() - kMost);
  return text;
}

}  // namespace flow::exec
