// A job-file text parsed for a test, and what was said about it.
#pragma once

#include <string>
#include <string_view>

#include "compiler/job/text/reader.h"
#include "compiler/yaml/parse.h"

namespace flow::job {

struct Reading {
  explicit Reading(std::string text)
      : file(sources.add("job.yaml", std::move(text))),
        reader(sources, diags, file),
        tree(yaml::parse(sources, file, diags)) {}

  /// The scalar at a path of keys and positions: "vars.a.0".
  std::string at(std::string_view path) const {
    const yaml::Node* node = &tree;
    while (!path.empty()) {
      const size_t dot = std::min(path.find('.'), path.size());
      const std::string key(path.substr(0, dot));
      path.remove_prefix(std::min(dot + 1, path.size()));
      node = node->is_list() ? &node->items.at(std::stoul(key)) : node->find(key);
      if (!node) return "(absent)";
    }
    return node->is_scalar() ? node->scalar : std::string(name_of(node->kind));
  }
  bool says(std::string_view part) const { return diags.render().find(part) != std::string::npos; }

  Sources sources;
  Diags diags{sources};
  int32_t file;
  Reader reader;
  yaml::Node tree;
};

}  // namespace flow::job
