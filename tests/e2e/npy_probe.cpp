// Lets NumPy judge how .npy files are read, written and printed.
// Usage: npy_probe print FILE...       each array as text, then a line of "--"
//        npy_probe rewrite FROM TO     reads one file, writes another
//        npy_probe npz FILE...         for each a line: all that it has in arrays, or the refusal
#include <fmt/format.h>

#include <string_view>

#include "runtime/base/error.h"
#include "runtime/io/npy.h"
#include "runtime/io/npz.h"
#include "runtime/io/numpy_text.h"

namespace {

/// "a=[1 2] b=[3]", or "refused: ..."
std::string content_of(const char* path) {
  try {
    const flow::MappedFile file(path);
    const flow::io::Npz npz(file.bytes(), path);
    std::string text;
    for (const std::string& name : npz.arrays())
      text += fmt::format(
          "{}={} ", name,
          flow::io::format_numpy(flow::io::parse_npy(npz.read(name).bytes, name).view()));
    return text;
  } catch (const flow::RunError& error) {
    return fmt::format("refused: {}", error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  try {
    if (command == "print") {
      for (int i = 2; i < argc; ++i)
        fmt::print("{}\n--\n", flow::io::format_numpy(flow::io::read_npy(argv[i]).view()));
      return 0;
    }
    if (command == "npz") {
      for (int i = 2; i < argc; ++i) fmt::print("{}\n", content_of(argv[i]));
      return 0;
    }
    if (command == "rewrite" && argc == 4) {
      flow::io::write_npy(argv[3], flow::io::read_npy(argv[2]).view());
      return 0;
    }
  } catch (const flow::RunError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_status();
  }
  fmt::print(
      stderr,
      "usage: npy_probe print FILE... | npy_probe rewrite FROM TO | npy_probe npz FILE...\n");
  return 2;
}
