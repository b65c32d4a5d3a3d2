// The rows of a data file, as they lie in it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/dtype.h"
#include "runtime/base/file.h"
#include "runtime/base/shape.h"
#include "runtime/io/npy.h"

namespace flow::io {

/// Elements of `dtype` in C order, the first axis counting rows. Moving keeps `data` valid.
struct Rows {
  DType dtype = DType::kUInt8;
  Narrow narrow = Narrow::kNo;
  Shape shape;
  bool big_endian = false;
  std::span<const std::byte> data;

  std::optional<MappedFile> file;       // one of these two owns the data
  std::unique_ptr<std::byte[]> memory;  // what was compressed, or in another order
};

/// Throws where the shape of a file, rows first, is not what is wanted.
using CheckShape = std::function<void(const Shape&)>;

/// An idx file (the format of MNIST), plain or gzip. RunError: not idx, truncated, too long, a
/// gzip stream that is damaged. Nothing is unpacked before `check` has seen the shape, and nothing
/// is allocated that the file's own size does not warrant.
Rows read_idx_rows(const fs::path& path, const CheckShape& check);

/// A .npy file, mapped where it is in C order.
Rows read_npy_rows(const fs::path& path, const CheckShape& check);

/// An array of an .npz file, mapped where it is stored as it is and in C order; nothing is unpacked
/// before `check` has seen the shape.
Rows read_npz_rows(const fs::path& path, const std::string& array, const CheckShape& check);

}  // namespace flow::io
