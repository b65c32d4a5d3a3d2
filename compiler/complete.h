// What a shell completes from a job file, which may have errors: it is being written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flow {

/// The jobs of a file, in its order. Reads what it includes.
std::vector<std::string> jobs_in(const std::string& file, std::string text);

/// What a path of `--set` that begins with `word` may go on with, to the next dot: keys and list
/// positions of the file, and keys of the language that the file leaves out. Each ends with `.`
/// where the path goes on, or else with `=`.
std::vector<std::string> set_paths(const std::string& file, std::string text,
                                   std::string_view word);

}  // namespace flow
