// The job file that a model becomes: entries, their names and variables, as text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/base/array.h"

namespace flow::onnx {

/// What an operand or a returned value refers to.
struct Reference {
  enum class Kind { kNone, kInput, kEntry, kNumber };
  Kind kind = Kind::kNone;
  size_t index = 0;       // of the input or entry
  std::string text = {};  // a number as text, or the port of an entry: "indices"
};

struct JobInput {
  std::string name;  // of the model
  DType dtype;
  Shape shape;
  bool rows = false;                          // its first axis is the batch
  std::map<int, std::string> variables = {};  // by axis: the variable that is its size
};

/// Attributes that follow from `vars`, as a job file has them, by name.
using Texts = std::map<std::string, std::string, std::less<>>;

struct JobEntry {
  std::string name;  // that it should have; made legal and unique
  const ops::OpSpec* op;
  std::vector<Reference> operands;  // kNone: an optional one that is not there
  ops::Attributes attributes;
  std::map<std::string, Array> variables = {};  // by name in the layer; "": the entry is one
  std::optional<size_t> shares = {};            // the entry whose variables it uses
  Texts texts = {};
  std::set<std::string> pins = {};  // of `vars`: the entry is right for their values alone
};

/// Names of a job file, each given once.
class UniqueNames {
 public:
  /// The name as a job file may have it, with a number where it is taken.
  std::string add(std::string_view wanted);
  /// A name that others may not have; false where it is taken.
  bool take(const std::string& name) { return taken_.insert(name).second; }

 private:
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, int64_t, std::less<>> last_;  // number of a name that is taken
};

class JobWriter {
 public:
  std::vector<JobInput> inputs;
  std::vector<JobEntry> entries;
  std::vector<std::pair<std::string, Reference>> outputs;  // by name in the model
  std::vector<std::pair<std::string, int64_t>> sizes;      // `vars`, by name
  std::set<std::string> pins;  // of them: the job is right for their values alone
  std::string precision = "float32";
  std::string file, weights;  // of the job, and what it loads

  /// Drops entries that no output follows from, and adds the pins of the others to the job's.
  void drop_unread();
  /// Gives all inputs and entries names that a job file may have, each its own; inputs and outputs
  /// keep theirs where they can.
  void assign_names();
  /// The job file, with `head` as its first lines. REQUIRES: names are assigned.
  std::string text(std::string_view head) const;
  /// Moves out the variables, by the names that the job has for them. REQUIRES: as text().
  std::map<std::string, Array> take_variables();

 private:
  std::string text_of(const Reference& reference) const;
  std::string entry_text(const JobEntry& entry) const;
  std::string input_text(const JobInput& input) const;
  std::string returns_text() const;
  std::string sizes_text() const;

  UniqueNames names_;
  std::vector<std::string> input_names_, entry_names_;
};

/// A name of ONNX as a job file may have it: "conv1/W:0" as "conv1_W_0".
std::string legal_name(std::string_view name);

}  // namespace flow::onnx
