// The files of page/, which the build puts into the program.
#pragma once

#include <string_view>

namespace flow::cli::report::page {

extern const std::string_view kFragments, kStyle, kScript;

}  // namespace flow::cli::report::page
