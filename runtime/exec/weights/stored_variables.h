// Variables stored in files, accessed by name. The files are untrusted and are checked when they
// are read.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/data/sources/learned.h"
#include "runtime/io/npz.h"
#include "runtime/io/safetensors.h"

namespace flow::exec {

class StoredVariables {
 public:
  struct Item {
    std::string name;  // the name of the variable
    DType dtype;
    Shape shape;
    std::string_view foreign = {};  // the name of a dtype that flow does not have: "F8_E4M3"

    std::string_view dtype_name() const { return foreign.empty() ? name_of(dtype) : foreign; }
  };

  virtual ~StoredVariables() = default;
  /// The path of the variables, for messages.
  virtual const fs::path& path() const = 0;
  /// Lists the variables, sorted by name. Throws RunError if a file is missing or is not in .npy
  /// format.
  virtual std::vector<Item> items() const = 0;
  /// Reads a variable. Throws RunError naming the file if it is damaged. REQUIRES: `name` is one of
  /// items().
  virtual Array read(const std::string& name) const = 0;
  /// Returns what columns of datasets learned in the run that stored the variables. Throws
  /// RequestError if the file is damaged.
  virtual data::Learned learned() const { return {}; }
  /// Returns true if the path now contains something else, or nothing.
  virtual bool is_replaced() const { return false; }
  /// Returns true if a run of flow chose the names, so that rules for names do not apply.
  virtual bool has_names_of_flow() const { return false; }
};

/// Returns true if the array can be converted to this dtype. Every float dtype can be converted to
/// every other one.
bool is_convertible(const StoredVariables::Item& item, DType to);

/// Returns true if the name begins with another one of `names`, like the names of optimizer slots.
/// `names` is a set or a map.
template <typename Names>
bool is_slot_name(std::string_view name, const Names& names) {
  const size_t slash = name.rfind('/');
  return slash != name.npos && names.contains(std::string(name.substr(0, slash)));
}

/// The arrays of an .npz file that have the names of variables. Each array is decompressed when it
/// is read.
class NpzVariables : public StoredVariables {
 public:
  /// Throws RunError if the file is damaged or is not an .npz file. Throws RequestError if the name
  /// of an array cannot be that of a variable, or if there are no arrays.
  explicit NpzVariables(const fs::path& path);

  const fs::path& path() const override { return path_; }
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;

 private:
  fs::path path_;
  MappedFile file_;
  io::Npz npz_;
};

/// The variables of another object, with averages in place of the variables that have one.
class AveragedVariables : public StoredVariables {
 public:
  /// Throws RequestError if no variable has an average.
  explicit AveragedVariables(std::unique_ptr<StoredVariables> all);

  const fs::path& path() const override { return all_->path(); }
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;
  bool is_replaced() const override { return all_->is_replaced(); }
  bool has_names_of_flow() const override { return all_->has_names_of_flow(); }

 private:
  std::unique_ptr<StoredVariables> all_;
  std::map<std::string, Item> averages_;  // indexed by the name of the variable
};

/// The arrays of .safetensors files, which are mapped into memory. Each array is read on demand.
class SafetensorsVariables : public StoredVariables {
 public:
  /// `path` is a file or the index of a set of files. Throws RunError if a file is damaged, or if a
  /// file of the set or an array in it is missing.
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
  /// An array and the file that contains it.
  struct Found {
    const Shard* shard;
    const io::Safetensors::Entry* entry;
  };

  void open_set();

  fs::path path_;
  std::map<std::string, Shard> shards_;  // indexed by file name
  std::map<std::string, Found> arrays_;
};

/// Returns an indented line for each text. If there are many, returns only the first ones and the
/// number of the others.
std::string bounded_list(std::span<const std::string> lines);

}  // namespace flow::exec
