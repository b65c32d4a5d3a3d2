// Texts that the build puts into flowc: job files and guides.
#pragma once

#include <iterator>
#include <span>
#include <string_view>

namespace flow::cli {

/// The job files of jobs/, which `flowc init` starts new ones from.
struct Template {
  std::string_view name;  // "lenet"
  std::string_view text;
};

/// Sorted by name.
std::span<const Template> templates();

/// Folders of data that jobs/ has: "data/mnist".
std::span<const std::string_view> data_folders();

struct Guide {
  std::string_view name, text;  // Markdown
};
/// docs/tutorial.md and docs/guide/*.md, as they were when this was compiled.
std::span<const Guide> guides();

}  // namespace flow::cli
