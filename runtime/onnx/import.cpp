// Reads a model node by node.
#include "runtime/onnx/onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/onnx/rules.h"

namespace flow::onnx {
namespace {

/// The supported versions of the default domain. Among the operators that are read, only
/// GroupNormalization has changed its meaning since opset 20.
constexpr int64_t kOldestOpset = 1, kNewestOpset = 28;

constexpr const char* kBatchVariable = "batch";

/// The most variables whose sizes are followed, because each one requires several imports at other
/// sizes.
constexpr int64_t kMostVariables = 24;
/// Each probe is a factor of the size and an addend. Only few bounds in models exceed the largest
/// probe.
constexpr std::pair<int64_t, int64_t> kProbes[] = {{1, 1}, {2, 0}, {1, 4096}};
constexpr int64_t kFactors[] = {2, 3};

bool is_default_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }

/// The reason why operators of another domain cannot be imported.
struct Domain {
  std::string_view name;  // also matches longer names such as "ai.onnx.preview.training"
  const char* what;
  const char* hint;
};
constexpr Domain kDomains[] = {
    {"com.microsoft", "an operator of ONNX Runtime, not of ONNX",
     "export the model without the optimizations and the quantization of ONNX Runtime"},
    {"ai.onnx.ml", "an operator of ONNX-ML, for classical machine learning",
     "export the neural network without the steps before and after it"},
    {"ai.onnx.preview", "a preview operator of ONNX", "export the model without it"},
    {"ai.onnx.training", "an operator of ONNX for training", "export the model for inference"},
};

Unsupported foreign_operator(const pb::ModelProto& model, const pb::NodeProto& node) {
  for (const pb::FunctionProto& function : model.functions())
    if (function.domain() == node.domain() && function.name() == node.op_type())
      return Unsupported("a function of the model",
                         "inline functions: onnx.inliner.inline_local_functions(MODEL)");
  for (const Domain& domain : kDomains)
    if (node.domain() == domain.name || node.domain().starts_with(std::string(domain.name) + "."))
      return Unsupported(domain.what, domain.hint);
  return Unsupported("an operator of another domain than ONNX's", "export the model without it");
}

/// Returns the rule that reads an operator, or null if there is none.
const Rule* find_reader(std::string_view type) {
  static const auto kRules = [] {
    std::map<std::string_view, const Rule*> rules;
    for (const Rule& rule : all_rules())
      if (rule.read) rules.emplace(rule.type, &rule);
    return rules;
  }();
  const auto found = kRules.find(type);
  return found == kRules.end() ? nullptr : found->second;
}

bool is_cast(const pb::NodeProto& node) {
  return node.op_type() == "Cast" || node.op_type() == "CastLike";
}

bool casts_to_float64(const pb::NodeProto& node) {
  return node.op_type() == "Cast" &&
         std::ranges::any_of(node.attribute(), [](const pb::AttributeProto& attribute) {
           return attribute.name() == "to" && attribute.i() == pb::TensorProto::DOUBLE;
         });
}

class ModelImport {
 public:
  ModelImport(const pb::ModelProto& model, const ImportRequest& request)
      : model_(model), graph_(model.graph()), request_(request), state_(request.source) {}

  ImportedModel run() {
    read_opset();
    sort_nodes();
    state_.types.compute = computes_in_float64() ? DType::kFloat64 : DType::kFloat32;
    state_.job.precision = name_of(state_.types.compute);
    state_.job.file = escaped(request_.job_file);
    state_.job.weights = request_.weights;
    read_initializers();
    read_inputs();
    for (const pb::NodeProto* node : nodes_) read_node(*node);
    refuse_lost();
    read_outputs();
    state_.job.drop_unread();
    state_.job.assign_names();
    const std::string head = fmt::format("# {}, imported by flowc\n#\n", escaped(request_.source));
    ImportedModel imported{.job_file = state_.job.text(head),
                           .variables = {},
                           .nodes = static_cast<size_t>(graph_.node_size())};
    imported.variables = state_.job.take_variables();
    return imported;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, std::string hint = {}) const {
    throw RequestError(fmt::format("{}: {}", request_.source, what), std::move(hint));
  }

  void read_opset() {
    const auto is_of_onnx = [](const auto& one) { return is_default_domain(one.domain()); };
    for (const pb::OperatorSetIdProto& opset : model_.opset_import())
      if (is_of_onnx(opset)) state_.opset = opset.version();
    if (model_.opset_import_size() == 0)
      state_.opset = 1;
    else if (std::ranges::none_of(model_.opset_import(), is_of_onnx) &&
             std::ranges::none_of(graph_.node(), is_of_onnx))
      state_.opset = kNewestOpset;  // all nodes are rejected because of their domains
    if (state_.opset < kOldestOpset || state_.opset > kNewestOpset)
      refuse(fmt::format("opset {} of ONNX; supported are {} to {}", state_.opset, kOldestOpset,
                         kNewestOpset),
             "export the model with another opset");
  }

  /// Returns true if a node other than a cast reads a float64 tensor. In this case the whole job
  /// computes in float64.
  bool computes_in_float64() const {
    std::set<std::string> wide;
    for (const pb::TensorProto& tensor : graph_.initializer())
      if (tensor.data_type() == pb::TensorProto::DOUBLE) wide.insert(tensor.name());
    for (const pb::ValueInfoProto& info : graph_.input())
      if (info.type().tensor_type().elem_type() == pb::TensorProto::DOUBLE)
        wide.insert(info.name());
    for (const pb::NodeProto* node : nodes_) {
      const bool reads = std::ranges::any_of(
          node->input(), [&](const std::string& name) { return wide.contains(name); });
      if (reads && !is_cast(*node)) return true;
      const bool like_wide =
          node->op_type() == "CastLike" && node->input_size() == 2 && wide.contains(node->input(1));
      if (like_wide || casts_to_float64(*node))
        wide.insert(node->output().begin(), node->output().end());
    }
    return false;
  }

  void sort_nodes() {
    try {
      NeededNodes sorted = needed_nodes(graph_);
      nodes_ = std::move(sorted.nodes);
      state_.needed = std::move(sorted.tensors);
    } catch (const Unsupported& unsupported) {
      refuse(unsupported.what());
    }
  }

  /// Adds a tensor. Rejects a name that another tensor already has.
  void add(const std::string& name, Tensor tensor) {
    if (!state_.tensors.emplace(name, std::move(tensor)).second)
      refuse(fmt::format("two tensors are called `{}`", escaped(name)));
  }

  void read_initializers() {
    if (graph_.sparse_initializer_size() > 0) refuse("sparse initializers are not supported");
    for (const pb::TensorProto& tensor : graph_.initializer()) {
      if (!state_.needed.contains(tensor.name())) continue;
      try {
        const NodeImport none(state_, pb::NodeProto::default_instance(), "");
        add(tensor.name(), none.constant(state_.external.read(tensor)));
      } catch (const Unsupported& unsupported) {
        refuse(fmt::format("initializer `{}`: {}", escaped(tensor.name()), unsupported.what()),
               unsupported.hint());
      }
    }
  }

  /// Returns the variable of a dimension without a number. Its name is the legal form of the name
  /// in the model, or follows from the input. -1 and names such as `?` count as no name.
  std::string variable_of(const pb::TensorShapeProto::Dimension& dimension,
                          const std::string& input, int axis) {
    const bool is_named = std::ranges::any_of(dimension.dim_param(),
                                              [](unsigned char c) { return std::isalnum(c) != 0; });
    const std::string key = is_named    ? dimension.dim_param()
                            : axis == 0 ? "?"
                                        : fmt::format("?{} {}", axis, input);
    if (const auto found = dimensions_.find(key); found != dimensions_.end()) return found->second;
    constexpr std::array kWords = {"min", "max", "and",  "or",   "if",   "else",
                                   "not", "env", "seed", "step", "epoch"};
    const std::string legal = legal_name(is_named    ? key
                                         : axis == 0 ? kBatchVariable
                                                     : fmt::format("{}_{}", input, axis));
    const bool is_word = std::ranges::find(kWords, legal) != kWords.end();
    return dimensions_[key] = variables_.add(is_word ? legal + "_" : legal);
  }

  /// Returns the size of a dimension, and records its variable if the model gives no number.
  int64_t size_of_dimension(const pb::TensorShapeProto::Dimension& dimension,
                            const std::string& input, int axis, JobInput& made) {
    if (dimension.has_dim_value() && dimension.dim_value() != -1) {
      if (dimension.dim_value() < 1 || dimension.dim_value() > ops::kMaxSize)
        refuse(
            fmt::format("input `{}` has a dimension of {}", escaped(input), dimension.dim_value()));
      return dimension.dim_value();
    }
    const std::string shown = variable_of(dimension, input, axis);
    const auto given = request_.dimensions.find(shown);
    if (given == request_.dimensions.end() && axis > 0)
      refuse(fmt::format("dimension {} of input `{}` has no size", axis, escaped(input)),
             fmt::format("give it one: --dim {}=SIZE", shown));
    const int64_t size = given == request_.dimensions.end() ? 1 : given->second;
    if (sized_.insert(shown).second) state_.job.sizes.emplace_back(shown, size);
    made.variables[axis] = shown;
    if (axis == 0) made.rows = true;
    return size;
  }

  void read_inputs() {
    for (const pb::ValueInfoProto& info : graph_.input()) {
      if (state_.tensors.contains(info.name()) || !state_.needed.contains(info.name())) continue;
      if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape())
        refuse(fmt::format("input `{}` is not a tensor with a shape", escaped(info.name())));
      const auto& type = info.type().tensor_type();
      if (type.shape().dim_size() > ops::kMaxRank)
        refuse(fmt::format("input `{}` has {} dimensions; at most {} are supported",
                           escaped(info.name()), type.shape().dim_size(), ops::kMaxRank));
      const auto dtype = dtype_of(type.elem_type());
      if (!dtype)
        refuse(
            fmt::format("input `{}` is of a dtype that flow does not have", escaped(info.name())));
      JobInput input{.name = info.name(), .dtype = *dtype, .shape = {}};
      std::vector<int64_t> extents;
      for (int axis = 0; axis < type.shape().dim_size(); ++axis)
        extents.push_back(size_of_dimension(type.shape().dim(axis), info.name(), axis, input));
      input.shape = Shape(std::move(extents));
      if (!input.shape.checked_elements())
        refuse(fmt::format("input `{}` is too large: {}", escaped(info.name()), input.shape.str()));
      state_.job.inputs.push_back(std::move(input));
    }
    require_known_dimensions();
    share_fixed_batch();
    find_probes();
    for (size_t i = 0; i < state_.job.inputs.size(); ++i) {
      const JobInput& input = state_.job.inputs[i];
      const bool widened = input.dtype == DType::kFloat32;
      Tensor tensor{.dtype = widened ? state_.types.compute : input.dtype,
                    .shape = input.shape,
                    .batch_axis = input.rows ? 0 : ops::kNoBatch,
                    .reference = {.kind = Reference::Kind::kInput, .index = i}};
      tensor.sizes = sizes_of(input);
      if (input.rows) state_.batch = tensor.size(0);
      if (input.rows) state_.types.batch = input.shape[0];
      add(input.name, std::move(tensor));
    }
  }

  /// Returns true if sizes are followed. If there are too many variables, all of them keep their
  /// values.
  bool are_followed() const { return std::ssize(state_.job.sizes) <= kMostVariables; }

  /// Creates the probes, each of which changes one variable, or all variables by the same factor.
  void find_probes() {
    std::set<std::string> all;
    for (const auto& [name, size] : state_.job.sizes) all.insert(name);
    if (!are_followed()) state_.job.pins = all;
    if (!are_followed() || all.empty()) return;
    for (const auto& [name, size] : state_.job.sizes)
      for (size_t i = 0; i < std::size(kProbes); ++i) state_.probes.push_back({name});
    state_.probes.resize(state_.probes.size() + std::size(kFactors), all);
  }

  /// Returns the sizes of an input at each probe if dimensions of the input are variables, and
  /// nothing otherwise.
  Sizes sizes_of(const JobInput& input) const {
    if (input.variables.empty() || !are_followed()) return {};
    Sizes sizes = fixed(input.shape.extents());
    for (const auto& [axis, name] : input.variables) {
      Size& size = sizes[static_cast<size_t>(axis)];
      size.text = name;
      size.variables = {name};
      size.least = 1;
      for (const auto& [other, value] : state_.job.sizes)
        for (const auto& [factor, added] : kProbes)
          size.probes.push_back(other == name ? size.value * factor + added : size.value);
      for (const int64_t factor : kFactors) size.probes.push_back(size.value * factor);
    }
    return sizes;
  }

  /// Rejects sizes for dimensions that the model does not have.
  void require_known_dimensions() const {
    std::vector<std::string> names;
    for (const auto& [name, size] : state_.job.sizes) names.push_back(name);
    for (const auto& [name, size] : request_.dimensions)
      if (std::ranges::find(names, name) == names.end())
        refuse(fmt::format("no symbolic dimension is called `{}`", escaped(name)),
               names.empty() ? "omit --dim" : fmt::format("use one of {}", join(names, ", ")));
  }

  /// Makes the first axis of all inputs the batch if the model has no symbolic sizes and these axes
  /// have equal sizes.
  void share_fixed_batch() {
    std::vector<JobInput>& inputs = state_.job.inputs;
    const bool fixed = std::ranges::none_of(inputs, &JobInput::rows);
    const auto equal = [&](const JobInput& input) {
      return input.shape.rank() > 0 && input.shape[0] == inputs[0].shape[0];
    };
    if (!fixed || inputs.empty() || inputs[0].shape.rank() == 0 ||
        !std::ranges::all_of(inputs, equal))
      return;
    for (JobInput& input : inputs) input.rows = true;
  }

  /// Checks that a tensor exists for each operand. Returns true if all of these tensors could be
  /// imported.
  bool has_operands(const pb::NodeProto& node) const {
    bool known = true;
    for (const std::string& name : node.input()) {
      if (name.empty()) continue;
      const auto found = state_.tensors.find(name);
      if (found == state_.tensors.end())
        refuse(fmt::format("node `{}` ({}) reads `{}`, which nothing produces", shown_name(node),
                           escaped(node.op_type()), escaped(name)));
      known &= !found->second.lost;
    }
    return known;
  }

  void read_node(const pb::NodeProto& node) {
    const bool known = has_operands(node);
    const size_t entries = state_.job.entries.size();
    std::vector<Tensor> results;
    const bool is_foreign = !is_default_domain(node.domain());
    Unsupported refusal =
        is_foreign ? foreign_operator(model_, node)
                   : Unsupported("not supported", "list the ops of flow with `flowc ops`");
    bool refused = true;
    try {
      const Rule* rule = is_foreign ? nullptr : find_reader(node.op_type());
      if (rule && known) {
        NodeImport import(state_, node, rule->op);
        results = read(*rule, import);
        import.require_all_taken();
        keep_pins(import.pins(), entries, results);
      }
      refused = rule == nullptr;
    } catch (const Unsupported& unsupported) {
      refusal = unsupported;
    }
    if (refused) lose(node, refusal);
    const bool lost = !known || refused;
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty()) continue;
      Tensor result;
      if (!lost && i < static_cast<int>(results.size()))
        result = results[static_cast<size_t>(i)];
      else if (!lost && state_.needed.contains(node.output(i)))
        lose(node, Unsupported(fmt::format("output {} is not supported", i + 1)));
      result.lost = lost || i >= static_cast<int>(results.size());
      add(node.output(i), std::move(result));
    }
    name_entries(node, entries);
  }

  /// Keeps the pins of a node. They belong to the node's entries and constants, which the job may
  /// not need, or to the job if the node returns other results.
  void keep_pins(const std::set<std::string>& pins, size_t first, std::vector<Tensor>& results) {
    if (pins.empty()) return;
    for (size_t i = first; i < state_.job.entries.size(); ++i)
      state_.job.entries[i].pins.insert(pins.begin(), pins.end());
    for (Tensor& result : results) {
      if (result.value) result.follows.insert(pins.begin(), pins.end());
      const bool is_made =
          (result.reference.kind == Reference::Kind::kEntry && result.reference.index >= first) ||
          (result.value && result.reference.kind == Reference::Kind::kNone);
      if (!is_made) state_.job.pins.insert(pins.begin(), pins.end());
    }
  }

  /// Names the intermediate entries of a node after its result.
  void name_entries(const pb::NodeProto& node, size_t first) {
    std::vector<JobEntry>& entries = state_.job.entries;
    for (size_t i = first; i < entries.size(); ++i)
      if (i + 1 < entries.size() && entries[i].name == node.output(0))
        entries[i].name += fmt::format("_{}", entries[i].op->name);
  }

  void lose(const pb::NodeProto& node, const Unsupported& refusal) {
    const std::string type =
        is_default_domain(node.domain()) ? node.op_type() : node.domain() + "." + node.op_type();
    lost_.push_back(
        fmt::format("\n  {} of node `{}`: {}", escaped(type), shown_name(node), refusal.what()));
    if (!refusal.hint().empty() && std::ranges::find(hints_, refusal.hint()) == hints_.end())
      hints_.push_back(refusal.hint());
  }

  void refuse_lost() const {
    if (lost_.empty()) return;
    refuse(
        fmt::format("{} cannot be imported:{}", counted(lost_.size(), "operator"), join(lost_, "")),
        join(hints_, "; "));
  }

  void read_outputs() {
    if (graph_.output_size() == 0) refuse("the model has no outputs");
    for (const pb::ValueInfoProto& output : graph_.output()) {
      const auto found = state_.tensors.find(output.name());
      if (found == state_.tensors.end())
        refuse(fmt::format("nothing makes the output `{}`", escaped(output.name())));
      add_output(output.name(), found->second);
    }
    if (!state_.job.inputs.empty() && state_.job.entries.empty())
      refuse("the model computes nothing");
  }

  /// Adds an output. A constant that is an output becomes an entry, and so does an input that is
  /// returned under another name.
  void add_output(const std::string& name, const Tensor& tensor) {
    Tensor returned = tensor;
    if (tensor.reference.kind == Reference::Kind::kNone) {
      pb::NodeProto node;
      node.add_input(name);
      node.add_output(name);
      try {
        NodeImport import(state_, node, "");
        returned = import.operand(0);
        state_.job.pins.insert(import.pins().begin(), import.pins().end());
      } catch (const Unsupported& unsupported) {
        refuse(fmt::format("output `{}`: {}", escaped(name), unsupported.what()));
      }
    }
    if (returned.reference.kind == Reference::Kind::kInput &&
        state_.job.inputs[returned.reference.index].name != name) {
      state_.job.entries.push_back({.name = name,
                                    .op = ops::find_spec("identity"),
                                    .operands = {returned.reference},
                                    .attributes = {}});
      returned.reference = {.kind = Reference::Kind::kEntry,
                            .index = state_.job.entries.size() - 1};
    }
    if (returned.reference.kind == Reference::Kind::kEntry && returned.reference.text.empty())
      state_.job.entries[returned.reference.index].name = name;
    state_.job.outputs.emplace_back(name, returned.reference);
  }

  const pb::ModelProto& model_;
  const pb::GraphProto& graph_;
  const ImportRequest& request_;
  ImportState state_;
  std::vector<const pb::NodeProto*> nodes_;  // in topological order
  std::vector<std::string> lost_, hints_;    // about nodes that cannot be imported
  // The variables of dimensions, indexed by the name in the model or by the place; then the set of
  // all variables.
  std::map<std::string, std::string> dimensions_;
  UniqueNames variables_;
  std::set<std::string> sized_;
};

}  // namespace

ImportedModel import_model(std::span<const std::byte> bytes, const ImportRequest& request) {
  pb::ModelProto model;
  if (bytes.size() > size_t{std::numeric_limits<int32_t>::max()} ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !model.has_graph())
    throw RequestError(fmt::format("{} is damaged, or not a model of ONNX", request.source),
                       hint_for_text(bytes));
  return ModelImport(model, request).run();
}

}  // namespace flow::onnx
