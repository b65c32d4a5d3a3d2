// The one file that knows where the source tree is.
#include "tests/support/source_files.h"

namespace flow::test {

std::filesystem::path source_path(std::string_view name) {
  return std::filesystem::path(FLOW_SOURCE_DIR) / name;
}

}  // namespace flow::test
