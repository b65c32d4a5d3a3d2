// Arrays made by other implementations.
#include "tests/support/golden_arrays.h"

#include <span>

#include "runtime/io/npz.h"
#include "tests/support/source_files.h"

namespace flow::test {

std::map<std::string, Array> golden_arrays(const std::string& name) {
  const std::string bytes = read_text(source_path("tests/golden") / (name + ".npz"));
  const io::Npz archive(std::as_bytes(std::span(bytes)), name);
  std::map<std::string, Array> arrays;
  for (const std::string& array : archive.arrays())
    arrays.emplace(array, io::parse_npy(archive.read(array).bytes, array));
  return arrays;
}

}  // namespace flow::test
