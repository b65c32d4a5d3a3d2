// Digests of the files of a dataset, which show whether a dataset has changed.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runtime/data/files/folder.h"

namespace flow::data {

/// A file of a dataset and the digest of its contents. The digest is empty if only the name and the
/// size count.
struct FileRecord {
  FileState state;
  std::string digest;
};

/// The size in bytes up to which the digest of a file covers all its contents.
inline constexpr uint64_t kWholeDigest = uint64_t{16} << 20;

/// Returns the digest of the contents of a regular file as 32 hexadecimal digits. Of a file of more
/// than 16 MiB, it covers the first and the last MiB and 62 blocks of 4 KiB that are evenly spaced
/// between them. Throws RunError if the file cannot be read or shrinks while it is read.
std::string digest_of_samples(const fs::path& path);

/// Returns the record of the file `name`, which is relative to `root`. The digest of `before`,
/// which may be null, is kept if the name, the size and the time are the same. Throws RunError if
/// the file is missing or changes while it is read.
FileRecord record_of(const fs::path& root, const std::string& name, const FileRecord* before);

/// Returns the digest of names, sizes and contents, in the order of `files`, as 32 hexadecimal
/// digits. Times do not count.
std::string digest_of_files(std::span<const FileRecord> files);

/// Throws RunError if a file is missing or its size or time has changed.
void require_unchanged(const fs::path& root, const FileState& before);

}  // namespace flow::data
