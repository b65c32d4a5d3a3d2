// Rows of one file: idx, .npy and .npz.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/io/npy.h"

namespace flow::io {

/// Elements of `dtype` in C order, whose first axis counts the rows. `data` stays valid when Rows
/// is moved.
struct Rows {
  DType dtype = DType::kUInt8;
  Narrow narrow = Narrow::kNo;
  Shape shape;
  bool big_endian = false;
  std::span<const std::byte> data;

  std::optional<MappedFile> file;       // either this or `memory` owns the data
  std::unique_ptr<std::byte[]> memory;  // data that was compressed or in another order
};

/// A function that throws if the shape of a file, whose first axis counts the rows, is not the
/// expected one.
using CheckShape = std::function<void(const Shape&)>;

/// Reads an idx file (the format of MNIST), plain or gzipped. Throws RunError if the file is not
/// idx, is truncated or too long, or if its gzip stream is damaged. Nothing is unpacked before
/// `check` has seen the shape, and no more memory is allocated than the size of the file can
/// justify.
Rows read_idx_rows(const fs::path& path, const CheckShape& check);

/// Reads a .npy file. It is mapped if it is in C order.
Rows read_npy_rows(const fs::path& path, const CheckShape& check);

/// Reads an array of an .npz file. It is mapped if it is uncompressed and in C order. Nothing is
/// unpacked before `check` has seen the shape.
Rows read_npz_rows(const fs::path& path, const std::string& array, const CheckShape& check);

}  // namespace flow::io
