// The job files of jobs/, which `flowc init` starts new ones from.
#pragma once

#include <span>
#include <string_view>

namespace flow::cli {

struct Template {
  std::string_view name;  // "lenet"
  std::string_view text;
};

/// Sorted by name.
std::span<const Template> templates();

/// Folders of data that jobs/ has: "data/mnist".
std::span<const std::string_view> data_folders();

}  // namespace flow::cli
