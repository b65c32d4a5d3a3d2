// Where NVIDIA's libraries are looked for, in a file system of the test's own.
#include "runtime/exec/core/module.h"

#include <catch2/catch.hpp>

#include "tests/support/fresh_directory.h"

namespace flow::exec {
namespace {

/// A file system below a folder, and an environment that names folders of it.
struct World {
  FreshDirectory root;
  std::map<std::string, std::string> variables;

  fs::path add(const fs::path& folder) const {
    fs::create_directories(root / folder);
    return root / folder;
  }
  /// The folders found below the root.
  std::vector<fs::path> find(const fs::path& own) const {
    const auto variable = [&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    };
    std::vector<fs::path> found = nvidia_folders(own, variable);
    std::erase_if(found, [&](const fs::path& path) {
      return !path.string().starts_with(root.path().string());
    });
    return found;
  }
};

TEST_CASE("folders of flow, of the toolkit and of Python's wheels are searched", "[exec]") {
  World world;
  const fs::path own = world.add("flow"), toolkit = world.add("cuda/lib64");
  const fs::path cudnn = world.add("venv/lib/python3.12/site-packages/nvidia/cudnn/lib");
  const fs::path cu13 = world.add("venv/lib/python3.12/site-packages/nvidia/cu13/lib");
  const fs::path of_user = world.add("home/.local/lib/python3.11/site-packages/nvidia/nccl/lib");
  const fs::path on_path = world.add("conda/lib/python3.10/dist-packages/nvidia/nccl/lib");
  world.add("venv/lib/python3.12/site-packages/nvidia/empty");
  world.add("venv/lib/other/site-packages/nvidia/cudnn/lib");
  world.add("conda/bin");
  File::create(world.root / "conda/bin/python3");
  world.variables = {{"CUDA_HOME", toolkit.parent_path()},
                     {"VIRTUAL_ENV", world.root.path() / "venv"},
                     {"HOME", world.root.path() / "home"},
                     {"PATH", "bin::" + (world.root.path() / "conda/bin").string()}};
  CHECK(world.find(own) == std::vector{own, toolkit, cu13, cudnn, on_path, of_user});
}

TEST_CASE("relative and missing folders are not searched", "[exec]") {
  World world;
  world.variables = {
      {"CUDA_HOME", "cuda"}, {"VIRTUAL_ENV", "venv"}, {"HOME", world.root.path() / "nobody"}};
  CHECK(world.find(world.root.path() / "missing").empty());
}

TEST_CASE("a file that is not a library is skipped", "[exec]") {
  const World world;
  const fs::path broken = world.add("broken"), empty = world.add("empty");
  File::create(broken / "libcudnn_nowhere.so").write(std::string_view("not a library"));
  CHECK_FALSE(open_from({empty, broken}, "libcudnn_nowhere.so"));
  CHECK_FALSE(open_from({}, "libcudnn_nowhere.so"));
  CHECK(opened_nvidia_libraries().count("libcudnn_nowhere.so") == 0);
}

}  // namespace
}  // namespace flow::exec
