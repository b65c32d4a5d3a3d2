// Lists in messages that could be as long as a file is large.
#pragma once

#include <span>
#include <string>

namespace flow::exec {

/// A line for each text, indented; of many the first, and how many more there are.
std::string bounded_list(std::span<const std::string> lines);

}  // namespace flow::exec
