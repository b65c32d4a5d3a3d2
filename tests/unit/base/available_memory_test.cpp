// Limits of control groups, in files as Linux has them.
#include "runtime/base/memory.h"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/fresh_directory.h"

namespace flow {
namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  write_text_atomically(path, text);
}

TEST_CASE("the narrowest of a process's control groups says what is left", "[base]") {
  constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();
  const FreshDirectory home;
  const fs::path groups = home / "cgroup", mount = home / "fs";
  CHECK(left_in_groups(groups, mount) == kNoLimit);

  write(groups, "0::/job/step\n");
  write(mount / "job/step/memory.max", "max\n");
  write(mount / "job/step/memory.current", "500\n");
  CHECK(left_in_groups(groups, mount) == kNoLimit);
  write(mount / "job/memory.max", "1000\n");
  write(mount / "job/memory.current", "700\n");
  CHECK(left_in_groups(groups, mount) == 300);
  write(mount / "job/memory.stat", "anon 600\ninactive_file 50\n");
  CHECK(left_in_groups(groups, mount) == 350);
  write(mount / "job/memory.current", "2000\n");
  CHECK(left_in_groups(groups, mount) == 0);

  write(groups, "0::/a:b\n");  // names may have colons
  write(mount / "a:b/memory.max", "10\n");
  write(mount / "a:b/memory.current", "3\n");
  CHECK(left_in_groups(groups, mount) == 7);

  write(groups, "5:cpu:/x\n4:memory:/not/mounted\n");
  CHECK(left_in_groups(groups, mount) == kNoLimit);
  write(mount / "memory/memory.limit_in_bytes", "1000\n");
  write(mount / "memory/memory.usage_in_bytes", "100\n");
  CHECK(left_in_groups(groups, mount) == 900);
}

}  // namespace
}  // namespace flow
