// Variables of .safetensors files: of one, or of a set with an index.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/exec/weights/stored_variables.h"
#include "runtime/io/safetensors.h"

namespace flow::exec {

/// Mapped into memory; each array is read when it is asked for.
class SafetensorsVariables : public StoredVariables {
 public:
  /// A file, or the index of a set. RunError where one is damaged, or a file of the set or an array
  /// in it is missing.
  explicit SafetensorsVariables(const fs::path& path);

  const fs::path& path() const override { return path_; }
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;

 private:
  struct Shard {
    explicit Shard(const fs::path& path) : file(path), arrays(file.bytes(), path.string()) {}
    MappedFile file;
    io::Safetensors arrays;
  };
  /// An array and the file that has it.
  struct Found {
    const Shard* shard;
    const io::Safetensors::Entry* entry;
  };

  void open_set();

  fs::path path_;
  std::map<std::string, Shard> shards_;  // by the name of the file
  std::map<std::string, Found> arrays_;
};

}  // namespace flow::exec
