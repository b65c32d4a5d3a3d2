// Variables that files hold, by name. Untrusted: checked as they are read.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/io/npz.h"
#include "runtime/io/safetensors.h"

namespace flow::exec {

class StoredVariables {
 public:
  struct Item {
    std::string name;  // of the variable
    DType dtype;
    Shape shape;
    std::string_view foreign = {};  // the dtype, where flow does not have it: "F8_E4M3"

    std::string_view dtype_name() const { return foreign.empty() ? name_of(dtype) : foreign; }
  };

  virtual ~StoredVariables() = default;
  /// Where they are, for messages.
  virtual const fs::path& path() const = 0;
  /// What there is, by name. RunError when a file is missing or no .npy.
  virtual std::vector<Item> items() const = 0;
  /// RunError naming the file when it is damaged. REQUIRES: it is one of items().
  virtual Array read(const std::string& name) const = 0;
  /// Is there something else at the path by now, or nothing?
  virtual bool is_replaced() const { return false; }
  /// Did a run of flow name them? Then rules for names do not apply.
  virtual bool has_names_of_flow() const { return false; }
};

/// Can the array become one of this dtype? Floats become each other.
bool is_convertible(const StoredVariables::Item& item, DType to);

/// Is it named after another one of `names`, as the slots of optimizers are? `names`: a set or map.
template <typename Names>
bool is_slot_name(std::string_view name, const Names& names) {
  const size_t slash = name.rfind('/');
  return slash != name.npos && names.contains(std::string(name.substr(0, slash)));
}

/// The arrays of an .npz file, called as the variables are. Each is unpacked when it is read.
class NpzVariables : public StoredVariables {
 public:
  /// RunError where the file is damaged or not an .npz. RequestError where an array cannot be a
  /// variable by its name, or there are none.
  explicit NpzVariables(const fs::path& path);

  const fs::path& path() const override { return path_; }
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;

 private:
  fs::path path_;
  MappedFile file_;
  io::Npz npz_;
};

/// What another one holds, with averages in the place of the variables that have one.
class AveragedVariables : public StoredVariables {
 public:
  /// RequestError where no variable has one.
  explicit AveragedVariables(std::unique_ptr<StoredVariables> all);

  const fs::path& path() const override { return all_->path(); }
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;
  bool is_replaced() const override { return all_->is_replaced(); }
  bool has_names_of_flow() const override { return all_->has_names_of_flow(); }

 private:
  std::unique_ptr<StoredVariables> all_;
  std::map<std::string, Item> averages_;  // by variable
};

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

/// A line for each text, indented; of many the first, and how many more there are.
std::string bounded_list(std::span<const std::string> lines);

}  // namespace flow::exec
