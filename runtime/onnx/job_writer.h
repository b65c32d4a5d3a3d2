// The job file that a model becomes: entries, their names and their variables, as text.
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

/// A reference to an operand or a returned value.
struct Reference {
  enum class Kind { kNone, kInput, kEntry, kNumber };
  Kind kind = Kind::kNone;
  size_t index = 0;       // index of the input or entry
  std::string text = {};  // a number as text, or the port of an entry: "indices"
};

struct JobInput {
  std::string name;  // name in the model
  DType dtype;
  Shape shape;
  bool rows = false;  // true if the first axis is the batch
  // The variable that is the size of each axis, indexed by axis.
  std::map<int, std::string> variables = {};
};

/// Attributes that depend on `vars`, as a job file writes them, indexed by name.
using Texts = std::map<std::string, std::string, std::less<>>;

struct JobEntry {
  std::string name;  // preferred name; made legal and unique
  const ops::OpSpec* op;
  std::vector<Reference> operands;  // kNone for an optional operand that is missing
  ops::Attributes attributes;
  // The arrays of the layer's variables, indexed by name; "" if the entry itself is a variable.
  std::map<std::string, Array> variables = {};
  std::optional<size_t> shares = {};  // index of the entry whose variables this one uses
  Texts texts = {};
  std::set<std::string> pins = {};  // `vars` for whose current values only the entry is valid
};

/// The names of a job file, each of which is used once.
class UniqueNames {
 public:
  /// Returns the legal form of a name, with a number if that name is taken.
  std::string add(std::string_view wanted);
  /// Reserves a name. Returns false if it is taken.
  bool take(const std::string& name) { return taken_.insert(name).second; }

 private:
  std::set<std::string, std::less<>> taken_;
  // The last number that was appended to each name that is taken.
  std::map<std::string, int64_t, std::less<>> last_;
};

class JobWriter {
 public:
  std::vector<JobInput> inputs;
  std::vector<JobEntry> entries;
  std::vector<std::pair<std::string, Reference>> outputs;  // names in the model
  std::vector<std::pair<std::string, int64_t>> sizes;      // names and values of `vars`
  std::set<std::string> pins;  // `vars` for whose current values only the job is valid
  std::string precision = "float32";
  std::string file, weights;  // paths of the job and of the weights that it loads

  /// Removes entries that no output depends on, and adds the pins of the remaining ones to the
  /// job's.
  void drop_unread();
  /// Gives all inputs and entries names that are legal in a job file and unique. Inputs and outputs
  /// keep their names if possible.
  void assign_names();
  /// Returns the job file, with `head` as its first lines. REQUIRES: names are assigned.
  std::string text(std::string_view head) const;
  /// Moves the variables out and returns them, indexed by their names in the job. REQUIRES: names
  /// are assigned.
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

/// Returns the legal form of an ONNX name in a job file: "conv1/W:0" becomes "conv1_W_0".
std::string legal_name(std::string_view name);

}  // namespace flow::onnx
