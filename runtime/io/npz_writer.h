// Writes NumPy's .npz: a zip archive of .npy files, stored as they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"

namespace flow::io {

class NpzWriter {
 public:
  /// REQUIRES: `file` is empty, and outlives this.
  explicit NpzWriter(File& file) : file_(file) {}
  /// RunError where the archive becomes larger than 4 GiB. REQUIRES: each name is new; the dtype is
  /// not bfloat16.
  void add(const std::string& name, const ArrayView& array);
  /// Writes the directory, after the last array.
  void finish();

 private:
  /// A file of the archive.
  struct Member {
    std::string name;
    uint32_t checksum, bytes, offset;
  };

  uint32_t narrowed(uint64_t number) const;
  void write(const std::string& text);

  File& file_;
  uint64_t at_ = 0;
  std::vector<Member> members_;
};

}  // namespace flow::io
