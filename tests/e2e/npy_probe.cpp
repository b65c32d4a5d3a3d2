// Lets NumPy judge how .npy files are read, written and printed.
// Usage: npy_probe print FILE...       each array as text, then a line of "--"
//        npy_probe rewrite FROM TO     reads one file, writes another
#include <fmt/format.h>

#include <string_view>

#include "runtime/base/error.h"
#include "runtime/io/npy.h"
#include "runtime/io/numpy_text.h"

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  try {
    if (command == "print") {
      for (int i = 2; i < argc; ++i)
        fmt::print("{}\n--\n", flow::io::format_numpy(flow::io::read_npy(argv[i]).view()));
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
  fmt::print(stderr, "usage: npy_probe print FILE... | npy_probe rewrite FROM TO\n");
  return 2;
}
