// Reads one entry of a graph: the op or network that it calls, its operands by name, and its
// attributes.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/read/sections.h"
#include "compiler/job/suggest/vocabulary.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

/// An operand of an op, or an input of a network.
struct Argument {
  std::string name;
  bool optional = false, variadic = false;
};

std::vector<Argument> arguments_of(const ops::OpSpec* def, const Signature* network) {
  std::vector<Argument> arguments;
  if (def)
    for (const ops::OperandSpec& operand : def->operands)
      arguments.push_back({std::string(operand.name), operand.optional, operand.variadic});
  if (network)
    for (const Name& input : network->inputs) arguments.push_back({input.text});
  return arguments;
}

/// Returns the network that the entry calls. Returns null if the entry calls an op, or after an
/// error.
const Signature* find_callee(Reader& reader, const yaml::Node& op, const Networks& networks,
                             Entry& entry) {
  entry.op = {op.scalar, op.span};
  if (const ops::OpSpec* def = ops::find_written_spec(op.scalar)) {
    entry.def = def;
    return nullptr;
  }
  if (const Signature* network = networks.find(op.scalar)) return network;
  std::vector<std::string> names = networks.names();
  const std::string others = names.empty() ? "" : listed("; networks of the file:", names);
  for (const ops::OpSpec* other : ops::written_specs()) names.emplace_back(other->name);
  const std::string near = suggestion(op.scalar, names);
  reader.error(Diagnosis::kUnknownOp, op, "unknown op or network `{}`", op.scalar)
      .with_hint(near.empty() ? "run `flowc ops` for a list of ops" + others : near);
  return nullptr;
}

class EntryReader {
 public:
  EntryReader(Reader& reader, const yaml::Entry& field, Entry& entry, const Signature* network)
      : reader_(reader),
        added_(field.place && !field.place->valid()),
        node_(field.value),
        entry_(entry),
        network_(network),
        arguments_(arguments_of(entry.def, network)) {}

  void read(Networks& networks, const std::optional<std::string>& fallback) {
    check_keys();
    read_named();
    read_main(fallback);
    bind();
    read_attributes();
    read_sharing();
    read_own_placement();
    if (network_) call_network(networks);
  }

 private:
  std::string callee() const { return fmt::format("`{}`", entry_.op.text); }

  bool takes_variables() const { return network_ || (entry_.def && entry_.def->takes_variables); }

  const ops::AttributeSpec* attribute(std::string_view name) const {
    return entry_.def ? entry_.def->attribute(name) : nullptr;
  }

  template <typename... Args>
  Diag& error(Diagnosis diagnosis, Span span, fmt::format_string<Args...> format, Args&&... args) {
    entry_.has_error = true;
    return reader_.error(diagnosis, span, "{}: {}", entry_.name.text,
                         fmt::format(format, std::forward<Args>(args)...));
  }

  void check_keys() {
    std::vector<std::string> known{"in"};
    for (const Argument& argument : arguments_)
      if (argument.name != "in") known.push_back(argument.name);
    if (entry_.def)
      for (const ops::AttributeSpec& def : entry_.def->attributes) known.emplace_back(def.name);
    if (network_)
      for (const Signature::Param& param : network_->params) known.push_back(param.name.text);
    for (const KeyDef& def : training_keys(entry_.def)) known.emplace_back(def.name);
    for (const KeyDef& def : kCallKeys) known.emplace_back(def.name);
    for (const yaml::Entry& field : node_.entries) {
      if (field.key == "op" || std::ranges::find(known, field.key) != known.end()) continue;
      if (reader_.take_note(field)) continue;
      error(Diagnosis::kUnknownAttribute, field.key_span, "unknown key `{}` of {}", field.key,
            callee())
          .with_hint(meant_.suggest(field.key, known, "valid keys:"));
    }
  }

  std::optional<Operand> read_operand(const yaml::Node& node, std::string_view key) {
    if (reader_.expect(node, yaml::Kind::kScalar, fmt::format("`{}`", key),
                       "write the name of an entry, and give the op its own entry"))
      return Operand{node.scalar, node.span};
    entry_.has_error = true;
    return {};
  }

  /// Reads operands that are given by name, such as `labels: labels`.
  void read_named() {
    entry_.operands.assign(arguments_.size(), Operand{{}, {}, false});
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const yaml::Node* node = node_.find(arguments_[i].name);
      if (!node || arguments_[i].name == "in") continue;
      if (const auto operand = read_operand(*node, arguments_[i].name))
        entry_.operands[i] = *operand;
    }
  }

  /// Reads `in:`, which is one operand or a list, or uses its default.
  void read_main(const std::optional<std::string>& fallback) {
    if (const yaml::Node* in = node_.find("in")) {
      in_span_ = in->span;
      for (const yaml::Node& item : yaml::each_of(*in))
        if (const auto operand = read_operand(item, "in")) in_.push_back(*operand);
    } else if (!arguments_.empty() && !entry_.operands[0].given && !arguments_[0].optional) {
      if (fallback)
        in_.push_back({*fallback, entry_.op.span});
      else
        error(Diagnosis::kMissingOperand, entry_.op.span, "{}",
              !reader_.sources[entry_.name.span.source].is_file()
                  ? "an entry of `--set` has no default operand"
              : added_ ? "an entry added to an extended job has no entry above to read"
                       : "no entry above to read")
            .with_hint("write the operand of {}: `{}: NAME`", callee(), arguments_[0].name);
    }
  }

  /// Assigns the operands of `in:`, in order, to the operands that are not given by name.
  void bind() {
    std::vector<Operand> bound;
    size_t next = 0;
    std::vector<std::string> missing;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (entry_.operands[i].given) {
        bound.push_back(entry_.operands[i]);
      } else if (arguments_[i].variadic && next < in_.size()) {
        bound.insert(bound.end(), in_.begin() + static_cast<std::ptrdiff_t>(next), in_.end());
        next = in_.size();
      } else if (next < in_.size()) {
        bound.push_back(in_[next++]);
      } else if (!arguments_[i].optional) {
        missing.push_back(arguments_[i].name);
      } else {
        bound.push_back(entry_.operands[i]);
      }
    }
    if (next < in_.size()) too_many();
    if (!missing.empty() && !entry_.has_error) too_few(missing);
    while (!bound.empty() && !bound.back().given) bound.pop_back();
    entry_.operands = std::move(bound);
    for (const Operand& operand : entry_.operands) entry_.spans.operands.push_back(operand.span);
  }

  void too_many() {
    const auto named = std::ranges::count(entry_.operands, true, &Operand::given);
    error(Diagnosis::kOperandCount, in_span_.valid() ? in_span_ : entry_.op.span,
          "`in` has {}{}; {} takes {}", counted(in_.size(), "operand"),
          named > 0 ? fmt::format(" in addition to {} given by name", named) : "", callee(),
          arguments_.empty() ? "none" : std::to_string(arguments_.size()));
  }

  void too_few(const std::vector<std::string>& missing) {
    std::vector<std::string> names;
    for (const Argument& argument : arguments_) names.push_back(argument.name);
    const auto needed =
        static_cast<size_t>(std::ranges::count(arguments_, false, &Argument::optional));
    error(Diagnosis::kMissingOperand, in_span_.valid() ? in_span_ : entry_.op.span,
          "{} requires {}; found {}", callee(), counted(needed, "operand"), needed - missing.size())
        .with_hint(missing_hint(names, missing));
  }

  std::string missing_hint(const std::vector<std::string>& names,
                           const std::vector<std::string>& missing) const {
    const bool by_name = network_ || std::ranges::any_of(names, [](const std::string& name) {
                           return name.size() > 1 && name != "in";
                         });
    if (arguments_.back().variadic) return "write `in: [a, b]`";
    if (!by_name) return fmt::format("write `in: [{}]`", join(names, ", "));
    return fmt::format("add `{}: NAME`", join(missing, ": NAME` and `"));
  }

  /// Converts `true` and `false` to the numbers 1 and 0 if the dtype is bool.
  yaml::Node number_of_truth(const ops::AttributeSpec& def, const yaml::Node& value) const {
    const yaml::Node* dtype = node_.find("dtype");
    const bool truth = value.is_scalar() && (value.scalar == "true" || value.scalar == "false");
    yaml::Node number = value;
    if (truth && def.type == ops::AttributeType::kNumber && dtype && dtype->scalar == "bool")
      number.scalar = value.scalar == "true" ? "1" : "0";
    return number;
  }

  void read_attributes() {
    for (const yaml::Entry& field : node_.entries) {
      if (const ops::AttributeSpec* def = attribute(field.key)) {
        read_attribute(reader_, number_of_truth(*def, field.value), *def, entry_);
        // An error at the value also underlines the key, unless the value comes from another place.
        Span& span = entry_.spans.spans.back().second;
        if (span.source == field.key_span.source && field.key_span.end <= span.begin)
          span.begin = field.key_span.begin;
      } else if (field.key == "trainable" && takes_variables()) {
        entry_.trainable = read_bool(reader_, field.value, "`trainable`").value_or(true);
      } else if (field.key == "variable_dtype" && takes_variables()) {
        entry_.variable_dtype = read_variable_dtype(field.value, field.key_span);
      } else if (field.key == "training" && (network_ || entry_.def->trains_otherwise)) {
        entry_.training = read_bool(reader_, field.value, "`training`").value_or(true);
      } else if (field.key == "per_shard") {
        entry_.per_shard = read_bool(reader_, field.value, "`per_shard`").value_or(false);
      }
    }
    if (!entry_.def) return;
    for (const ops::AttributeSpec& def : entry_.def->attributes)
      if (def.fallback.empty() && !node_.find(def.name) && !meant_.contains(def.name) &&
          !(node_.find("variables") && job::is_of_variables(def)))
        error(Diagnosis::kMissingAttribute, entry_.op.span, "{} requires `{}`", callee(), def.name)
            .with_hint("add `{}`: {}", def.name, def.doc);
  }

  std::optional<VariableDType> read_variable_dtype(const yaml::Node& node, Span key) {
    const auto word = read_choice(reader_, node, "`variable_dtype`", kVariableDTypes);
    if (!word) return {};
    return VariableDType{parse_dtype(*word), key};
  }

  /// Reads `variables: ENTRY`. Only that entry determines whether the variables are trained.
  void read_sharing() {
    const yaml::Node* node = node_.find("variables");
    if (!node || !takes_variables()) return;
    if (entry_.def && entry_.def->name == "variable") {
      error(Diagnosis::kBadAttribute, node->span, "a `variable` entry cannot share variables")
          .with_hint("read `{}` directly; several entries can read it", node->scalar);
      return;
    }
    if (const auto name = read_text(reader_, *node, "`variables`"))
      entry_.variables = Name{*name, node->span};
    else
      entry_.has_error = true;
    for (const yaml::Entry& field : node_.entries)
      if (is_of_variables(field.key))
        error(Diagnosis::kBadAttribute, field.key_span,
              "unexpected `{}`; set it on the entry that owns the variables", field.key)
            .label(node->span, "shared here");
  }

  /// Returns true if a key affects only the initial value or the training of variables, and not the
  /// result of the entry.
  bool is_of_variables(std::string_view key) const {
    const ops::AttributeSpec* def = attribute(key);
    return key == "trainable" || key == "variable_dtype" || (def && job::is_of_variables(*def));
  }

  void read_own_placement() {
    if (const yaml::Entry* field = node_.find_entry("placement"))
      entry_.placement =
          read_placement(reader_, field->value, field->key_span, kEntryPlacementSection);
  }

  void call_network(Networks& networks) {
    Arguments arguments;
    for (const Signature::Param& param : network_->params) {
      if (const yaml::Node* given = node_.find(param.name.text))
        arguments.emplace_back(param.name.text, *given);
      else if (!param.fallback && !meant_.contains(param.name.text))
        error(Diagnosis::kMissingAttribute, entry_.op.span, "{} requires `{}`", callee(),
              param.name.text)
            .label(param.name.span, "the param");
    }
    for (const auto& [name, value] : arguments)
      if (reader_.diags.is_silenced(value.span)) entry_.has_error = true;
    if (entry_.has_error) return;
    entry_.network = networks.call(entry_.op, arguments);
    entry_.has_error = !entry_.network;
  }

  Reader& reader_;
  const bool added_;  // added by a job that extends another
  const yaml::Node& node_;
  Entry& entry_;
  MeantKeys meant_;
  const Signature* network_;
  std::vector<Argument> arguments_;
  std::vector<Operand> in_;
  Span in_span_;
};

}  // namespace

Entry read_entry(Reader& reader, const yaml::Entry& field, Networks& networks,
                 const std::optional<std::string>& fallback) {
  Entry entry;
  entry.name = {field.key, field.key_span};
  entry.op.span = entry.spans.op = field.key_span;
  entry.has_error = true;
  const std::string& word = field.value.scalar;
  if (!reader.expect(field.value, yaml::Kind::kMapping, "an entry",
                     is_name(word) ? fmt::format("write `{{op: {}}}`", word) : std::string()))
    return entry;
  const yaml::Node* op = field.value.find("op");
  if (!op) {
    const auto meant = std::ranges::find_if(field.value.entries, [](const yaml::Entry& given) {
      return !meant_by(given.key, {"op"}).empty();
    });
    reader.error(Diagnosis::kMissingKey, field.key_span, "entry `{}` requires `op`", field.key)
        .with_hint(meant == field.value.entries.end()
                       ? std::string()
                       : fmt::format("did you mean `op` instead of `{}`?", meant->key));
    return entry;
  }
  if (!reader.expect(*op, yaml::Kind::kScalar, "`op`")) return entry;
  entry.spans.op = op->span;
  const Signature* network = find_callee(reader, *op, networks, entry);
  if (!entry.def && !network) return entry;
  entry.has_error = false;
  EntryReader(reader, field, entry, network).read(networks, fallback);
  return entry;
}

}  // namespace flow::job
