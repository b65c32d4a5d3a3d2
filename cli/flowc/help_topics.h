// The topics of `flowc help`: the guides in docs/, and the reference.
#pragma once

#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace flow::cli {

struct Guide {
  std::string_view name, text;  // Markdown
};
/// docs/tutorial.md and docs/guide/*.md, as they were when this was compiled.
std::span<const Guide> guides();

/// What `flowc help TOPIC` takes.
std::vector<std::string> topic_names();

/// The list of topics, a line each.
std::string list_topics(size_t columns);

/// The text of a topic for a terminal; empty where there is no such topic.
std::string topic_text(std::string_view name, size_t columns, bool color);

}  // namespace flow::cli
