// What completions of shells ask for: names that depend on a file, or that are a table's.
#pragma once

#include <string>
#include <vector>

namespace flow::cli {

struct CompletionRequest {
  std::string kind;                // "jobs", "paths", "ops", "codes", "topics", ...
  std::string word;                // "paths": what has been typed of it
  std::vector<std::string> files;  // "jobs", "paths": job files or plans
};

/// A name a line; none where a file cannot be read, or the kind is unknown: nobody wants an error
/// while typing.
std::string completions_of(const CompletionRequest& request);

}  // namespace flow::cli
