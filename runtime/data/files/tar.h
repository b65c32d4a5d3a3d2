// Shards of samples in the format of WebDataset: a plain tar archive in which neighboring files
// with one key are a sample. Shards are indexed once and read in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"

namespace flow::data {

/// A file of a sample.
struct TarField {
  size_t name;            // index of the name in the shard
  uint64_t offset, size;  // position of the data in the shard
};

/// The samples of a shard, in its order. The member "DIR/NAME.EXT" has the key "DIR/NAME", which
/// ends at the first dot of the base name, and the field "ext", which is the rest in lower case.
/// Folders are left out, and so are files whose base name begins with a dot, contains no dot, or
/// begins and ends with two underscores before the first dot.
class TarIndex {
 public:
  /// `shard` is the whole file. `name` appears in messages. Throws RunError if the archive is
  /// damaged, has members that are not files or folders, has a key that returns after another one,
  /// or has a field twice in a sample.
  TarIndex(std::span<const std::byte> shard, const std::string& name);

  size_t size() const { return samples_.size(); }
  std::string_view key(size_t sample) const {
    return std::string_view(keys_).substr(samples_[sample].key, samples_[sample].key_bytes);
  }
  std::span<const TarField> fields(size_t sample) const {
    const size_t first = samples_[sample].first;
    const size_t end = sample + 1 < size() ? samples_[sample + 1].first : fields_.size();
    return std::span(fields_).subspan(first, end - first);
  }
  const std::string& name_of(const TarField& field) const { return names_[field.name]; }
  /// Returns the first of these fields, in the order of `names`, that the sample has, or null.
  /// REQUIRES: the names are in lower case.
  const TarField* find(size_t sample, std::span<const std::string> names) const;

 private:
  class Builder;

  struct Sample {
    size_t key, key_bytes;  // position in keys_
    size_t first;           // index of the first field in fields_
  };

  std::string keys_;  // the keys of all samples, one after another
  std::vector<Sample> samples_;
  std::vector<TarField> fields_;
  std::vector<std::string> names_;
};

/// A shard on the disk.
class TarShard {
 public:
  /// Maps and indexes a shard. Throws the errors of TarIndex, and RunError if the file is missing,
  /// is not a regular file, is empty or is packed.
  explicit TarShard(const fs::path& path);

  const TarIndex& index() const { return index_; }
  std::span<const std::byte> bytes(const TarField& field) const {
    return file_.bytes().subspan(field.offset, field.size);
  }
  /// Calls `read`. Throws RunError if the file has become shorter since it was mapped. Used by one
  /// thread at a time.
  template <typename Read>
  void recovering(Read read) const {
    file_.recovering(read);
  }

 private:
  MappedFile file_;
  TarIndex index_;
};

}  // namespace flow::data
