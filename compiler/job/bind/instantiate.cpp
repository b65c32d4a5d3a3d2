// Adds the entries of a job to its graph, one after another, through the builder.
#include "compiler/job/bind/bind.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/rules.h"
#include "compiler/job/read/sections.h"
#include "compiler/job/text/values.h"
#include "runtime/base/array.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/precision.h"

namespace flow::job {
namespace {

// Limits the number of entries, which grows exponentially if networks call other networks several
// times.
constexpr size_t kMaxEntries = 20'000;

}  // namespace

void Usage::warn(Reader& reader) const {
  for (const auto& [place, entry] : made_)
    if (!read_.contains(place))
      reader.diags
          .warning(Diagnosis::kUnusedResult, entry.span,
                   fmt::format("unused result of `{}`", entry.text))
          .with_hint("return it, watch it, or delete the entry");
}

Instance::Instance(Reader& reader, const File& file, const Job& job, const Target& target,
                   Usage& usage)
    : reader_(reader),
      file_(file),
      job_(job),
      target_(target),
      usage_(usage),
      builder_(graph, reader.diags) {
  graph.device = scope_.device = job::device_of(job.placement, target);
  builder_.place_on(graph.device);
  graph.compute_dtype = plan::compute_dtype_of(job.precision);
  graph.shards = job.shards;
  if (job.loop) graph.loop.emplace().passes = job.loop->steps;
  add_inputs();
  run(job.graph.entries, scope_);
}

void Instance::add_inputs() {
  for (const Input& input : job_.inputs) {
    ir::ValueId& value = scope_.values[input.name.text];
    if (input.has_error) {
      failed_.insert(input.name.text);
      continue;
    }
    value = builder_.add_input(input.name.text, input.dtype, input.shape,
                               input.rows ? 0 : ir::kNoBatch, input.name.span);
    if (graph.compute_dtype == DType::kFloat64 && input.dtype == DType::kFloat32)
      value = builder_.add("cast", input.name.text + ":float64", {value},
                           {{"dtype", DType::kFloat64}}, input.name.span);
    value = fed_back(input.name.text, value);
  }
}

/// Returns the state that replaces an input or entry that the loop feeds, or the value itself for
/// all others.
ir::ValueId Instance::fed_back(const std::string& name, ir::ValueId value) {
  if (!job_.loop || !value.valid()) return value;
  const bool is_fed = std::ranges::any_of(
      job_.loop->feed, [&](const Fed& fed) { return fed.targets.match(name).has_value(); });
  return is_fed ? builder_.add_state(name, value) : value;
}

bool Instance::may_make(const Name& entry) {
  if (entries_.size() < kMaxEntries) return true;
  reader_.error(Diagnosis::kOutOfRange, entry.span, "job `{}` has more than {} entries",
                job_.name.text, kMaxEntries);
  return false;
}

void Instance::run(const std::vector<Entry>& entries, Scope& scope) {
  for (const Entry& entry : entries) {
    const std::string name = scope.prefix + entry.name.text;
    if (!may_make(entry.name)) {
      failed_.insert(name);
      return;
    }
    entries_.emplace(name, &entry);
    usage_.made(entry.name);
    const ir::ValueId value = fed_back(name, call_entry(entry, name, scope));
    scope.values[entry.name.text] = value;
    if (!value.valid())
      failed_.insert(name);
    else
      builder_.alias(name, value);
  }
}

/// Calls the entry, or its copies one after another.
ir::ValueId Instance::call_entry(const Entry& entry, const std::string& name, Scope& scope) {
  if (entry.copies.empty()) return call_once(entry, name, scope.variables + entry.name.text, scope);
  owners_[name] = scope.variables + entry.name.text;
  if (entry.has_error) arguments_of({entry, name, {}, {}}, scope);
  ir::ValueId value;
  for (size_t i = 0; i < entry.copies.size() && !entry.has_error; ++i) {
    const std::string copy = fmt::format("{}/{}", name, i);
    if (!may_make(entry.name)) return {};
    entries_.emplace(copy, &entry.copies[i]);
    const std::string own = fmt::format("{}{}/{}", scope.variables, entry.name.text, i);
    value = call_once(entry.copies[i], copy, own, scope, value);
    if (!value.valid()) return {};
    builder_.alias(copy, value);
  }
  return value;
}

/// Calls one copy, or the entry itself. `own` is the name of its own variables.
ir::ValueId Instance::call_once(const Entry& entry, const std::string& name, std::string own,
                                const Scope& scope, ir::ValueId first) {
  // The part of the name after the entry's name, such as "/0" for a copy.
  const std::string suffix = name.substr(scope.prefix.size() + entry.name.text.size());
  const auto owner = owner_of(entry, suffix, scope);
  if (owner) own = *owner;
  owners_[name] = own;
  const Span shared_at = entry.variables ? entry.variables->span : scope.shared_at;
  const ir::ValueId value =
      call({entry, name, own, shared_at, first, device_of(entry, scope)}, scope);
  return owner || !entry.variables ? value : ir::ValueId();
}

/// Returns the device of the entry, or that of the surrounding network or job.
plan::DeviceKind Instance::device_of(const Entry& entry, const Scope& scope) {
  if (!entry.placement) return scope.device;
  check_entry_placement(reader_, entry, job_, target_);
  return job::device_of(*entry.placement, target_);
}

/// Returns the name of the variables of the entry in `variables:`, or of its copy with the same
/// number. Returns nothing if the entry has its own variables, or after an error.
std::optional<std::string> Instance::owner_of(const Entry& entry, const std::string& suffix,
                                              const Scope& scope) {
  if (!entry.variables) return {};
  const std::string name = scope.prefix + entry.variables->text;
  mark_read(name, scope.prefix);
  // A network may exist only for its variables, so its entries count as read.
  const std::string inside = name + "/";
  for (auto part = entries_.lower_bound(inside);
       part != entries_.end() && part->first.starts_with(inside); ++part)
    usage_.read(part->second->name);
  if (failed_.contains(name)) return {};
  if (const auto copy = owners_.find(name + suffix); copy != owners_.end()) return copy->second;
  if (const auto owner = owners_.find(name); owner != owners_.end()) return owner->second;
  if (!entry.has_error)
    reader_
        .error(Diagnosis::kUnknownTensor, entry.variables->span,
               "{}: `{}` has no variables to share", entry.name.text, entry.variables->text)
        .with_hint("name an entry, not one of its tensors");
  return {};
}

ir::ValueId Instance::call(const Call& call, const Scope& scope) {
  // Operands are always resolved, so that their errors are reported and they count as read.
  auto arguments = arguments_of(call, scope);
  if (call.entry.has_error || !arguments) return {};
  return call.entry.network ? call_network(call, *arguments, scope)
                            : call_op(call, std::move(*arguments), scope);
}

ir::ValueId Instance::call_network(const Call& call, const std::vector<Argument>& arguments,
                                   const Scope& scope) {
  const Network& network = file_.networks[*call.entry.network];
  Scope inner{call.name + "/",
              {},
              scope.trainable && call.entry.trainable,
              scope.training && call.entry.training,
              call.variables + "/",
              call.shared_at,
              {},
              call.device,
              scope.per_shard || call.entry.per_shard,
              variable_dtype_of(call.entry, scope)};
  for (size_t i = 0; i < network.inputs.size(); ++i) {
    const std::string& input = network.inputs[i].text;
    if (arguments[i].number)
      inner.numbers[input] = *arguments[i].number;
    else
      inner.values[input] = arguments[i].value;
  }
  run(network.graph.entries, inner);
  const auto output = inner.values.find(network.output.text);
  if (output == inner.values.end()) return {};
  mark_read(inner.prefix + network.output.text, inner.prefix);
  return output->second;
}

ir::ValueId Instance::call_op(const Call& call, std::vector<Argument> arguments,
                              const Scope& scope) {
  const Entry& entry = call.entry;
  builder_.place_on(call.device);
  builder_.compute_per_shard(scope.per_shard || entry.per_shard ? ir::PerShard::kWhereAsked
                                                                : ir::PerShard::kOfOwn);
  std::vector<ir::ValueId> operands;
  for (size_t i = 0; i < arguments.size(); ++i) {
    operands.push_back(arguments[i].number ? add_number(call, i, arguments) : arguments[i].value);
    if (arguments[i].number && !operands.back().valid()) return {};
  }
  const ir::Attributes attributes = attributes_of(entry);
  if (!grad::rules_of(*entry.def).expand)
    return builder_.add(*entry.def, call.name, std::move(operands), attributes, entry.spans)
        .front();
  const VariableDType stored = variable_dtype_of(entry, scope).value_or(VariableDType());
  return builder_.add_layer(
      *entry.def,
      {builder_, call.name, std::move(operands), attributes, entry.initializers, entry.spans,
       job_.train && scope.training && entry.training, scope.trainable && entry.trainable,
       call.variables, call.shared_at, stored.dtype, stored.span});
}

/// Returns the setting of the entry, or that of the surrounding network.
std::optional<VariableDType> Instance::variable_dtype_of(const Entry& entry, const Scope& scope) {
  return entry.variable_dtype ? entry.variable_dtype : scope.variable_dtype;
}

/// Returns the attributes as written, except that float32 means float64 in a float64 job, even if
/// it is the default.
ir::Attributes Instance::attributes_of(const Entry& entry) const {
  ir::Attributes attributes = entry.attributes;
  if (graph.compute_dtype != DType::kFloat64) return attributes;
  for (const ops::AttributeSpec& def : entry.def->attributes) {
    if (def.type != ops::AttributeType::kDType) continue;
    const bool narrow = attributes.has(def.name)
                            ? attributes.get<DType>(def.name) == DType::kFloat32
                            : def.fallback == name_of(DType::kFloat32);
    if (narrow) attributes.set(def.name, DType::kFloat64);
  }
  return attributes;
}

/// Returns the arguments for the operands, or nothing if one of them is unknown after an error.
std::optional<std::vector<Instance::Argument>> Instance::arguments_of(const Call& call,
                                                                      const Scope& scope) {
  const Entry& entry = call.entry;
  std::vector<Argument> arguments(entry.operands.size());
  bool good = true;
  // The place of the last reported error. A place can give several operands, but is reported only
  // once.
  Span reported;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Operand& operand = entry.operands[i];
    if (!operand.given) continue;
    if (i == 0 && call.first.valid()) {
      arguments[i].value = call.first;
      continue;
    }
    const auto number = scope.numbers.find(operand.text);
    if (number != scope.numbers.end()) arguments[i].number = &number->second;
    if (parse_number(operand.text)) arguments[i].number = &operand;
    if (arguments[i].number) continue;
    const Resolved found = resolve(operand.text, scope);
    mark_read(scope.prefix + operand.text, scope.prefix);
    arguments[i].value = found.value;
    good = good && found.value.valid();
    if (found.value.valid() || found.has_error || entry.has_error || reported == operand.span)
      continue;
    report_unknown({operand.text, operand.span}, entry.name.text, scope);
    reported = operand.span;
  }
  if (!good || entry.has_error) return {};
  return arguments;
}

/// Returns the dtype of the first other operand of the same kind as operand i (for `y` of `where`:
/// `x`). Without such an operand, returns int32 for integers and the job's float dtype for all
/// others.
DType Instance::dtype_beside(const Call& call, size_t i,
                             const std::vector<Argument>& arguments) const {
  const std::vector<ops::OperandSpec>& defs = call.entry.def->operands;
  const auto kind = [&defs](size_t at) { return defs[std::min(at, defs.size() - 1)].accepts; };
  size_t other = 0;
  while (other < arguments.size() && !(arguments[other].value.valid() && kind(other) == kind(i)))
    ++other;
  if (other < arguments.size()) return graph[arguments[other].value].dtype;
  return kind(i) == ops::Accepts::kInteger ? DType::kInt32 : graph.compute_dtype;
}

/// Returns true if the dtype can represent the number. Otherwise reports an error.
bool Instance::check_number(const Call& call, const Operand& operand, DType dtype) {
  const double value = *parse_number(operand.text);
  const auto whole = parse_integer(operand.text);
  if (dtype == DType::kBool || (is_integer(dtype) && !whole)) {
    reader_
        .error(Diagnosis::kDTypeMismatch, operand.span, "{}: `{}` does not fit an operand of {}",
               call.entry.name.text, operand.text, name_of(dtype))
        .with_hint(dtype == DType::kBool
                       ? "convert the other operand first: `{op: cast, dtype: int32}`"
                       : "write an integer, or `cast` the other operand first");
    return false;
  }
  // The node stores a double, which may be 2^63 and thus exceed all integers.
  const bool kept = !is_integer(dtype) || (value < 0x1p63 && static_cast<int64_t>(value) == *whole);
  if (kept && can_hold(dtype, value)) return true;
  reader_
      .error(Diagnosis::kDTypeMismatch, operand.span,
             "{}: `{}` is {} {}, the dtype of the other operand", call.entry.name.text,
             operand.text, kept ? "out of range for" : "not exact in", name_of(dtype))
      .with_hint(holds(dtype));
  return false;
}

/// Adds a number as operand i. Returns an invalid id after an error.
ir::ValueId Instance::add_number(const Call& call, size_t i,
                                 const std::vector<Argument>& arguments) {
  const Operand& operand = *arguments[i].number;
  const DType dtype = dtype_beside(call, i, arguments);
  if (!check_number(call, operand, dtype)) return {};
  return builder_.add(
      "fill", call.name + "/number", {},
      {{"value", *parse_number(operand.text)}, {"shape", std::vector<int64_t>{}}, {"dtype", dtype}},
      operand.span);
}

Resolved Instance::resolve(std::string_view text, const Scope& scope) const {
  const std::string first(text.substr(0, text.find_first_of("/.")));
  const auto found = scope.values.find(first);
  if (found == scope.values.end()) return {};
  if (first.size() == text.size()) return {found->second, !found->second.valid()};
  const std::string name = scope.prefix + std::string(text);
  if (const ir::ValueId value = graph.find(name); value.valid()) return {value};
  if (const ir::ValueId value = first_result(name); value.valid()) return {value};
  if (const ir::ValueId value = shared_variable(name); value.valid()) return {value};
  // The name may refer to a part of an entry that failed earlier.
  const auto left_out = [&](const std::string& broken) {
    return name.starts_with(broken) || broken.starts_with(scope.prefix + first + "/");
  };
  return {{}, std::ranges::any_of(failed_, left_out)};
}

/// Returns `x` for `x.values` if this is the name of the op's first result.
ir::ValueId Instance::first_result(const std::string& name) const {
  const size_t dot = name.find_last_of('.');
  const ir::ValueId value = graph.find(name.substr(0, dot));
  if (dot == std::string::npos || !value.valid()) return {};
  const ir::Node* maker = graph.producer_of(value);
  if (!maker) return {};
  const bool named = maker->op->results.size() > 1 || maker->op->results[0].variadic;
  const bool first = named && maker->results[0] == value;
  const std::string port = first ? maker->op->result_name(0) : "";
  return first && port != "out" && port == name.substr(dot + 1) ? value : ir::ValueId();
}

/// Returns `a/weight` for `b/weight` if b uses the variables of a.
ir::ValueId Instance::shared_variable(const std::string& name) const {
  for (size_t cut = name.rfind('/'); cut != std::string::npos && cut > 0;
       cut = name.rfind('/', cut - 1)) {
    const auto owner = owners_.find(name.substr(0, cut));
    if (owner == owners_.end()) continue;
    const ir::ValueId value = graph.find(owner->second + name.substr(cut));
    return value.valid() && graph.variable_of(value) ? value : ir::ValueId();
  }
  return {};
}

Resolved Instance::find(std::string_view name) const { return resolve(name, scope_); }

Resolved Instance::require(const Name& name, std::string_view what) {
  const Resolved found = find(name.text);
  mark_read(name.text);
  if (!found.value.valid() && !found.has_error) report_unknown(name, what, scope_);
  return found;
}

void Instance::report_unknown(const Name& name, std::string_view what, const Scope& scope) {
  const std::string first = name.text.substr(0, name.text.find_first_of("/."));
  std::vector<std::string> candidates, inner;
  if (scope.values.contains(first)) {
    for (const std::string& other : names())
      if (other.starts_with(scope.prefix + first))
        candidates.push_back(other.substr(scope.prefix.size()));
  } else {
    for (const auto& [known, value] : scope.values) candidates.push_back(known);
    // Names inside other entries need their path.
    constexpr size_t kMost = 3;
    for (const std::string& other : names())
      if (inner.size() < kMost && other.starts_with(scope.prefix) &&
          other.ends_with("/" + name.text))
        inner.push_back(other.substr(scope.prefix.size()));
  }
  reader_.error(Diagnosis::kUnknownTensor, name.span, "{}: unknown tensor `{}`", what, name.text)
      .with_hint(inner.empty() ? suggestion(name.text, candidates, "available tensors:")
                               : fmt::format("did you mean {}?", quoted_alternatives(inner)));
}

std::vector<std::string> Instance::names() const {
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  const auto add = [&](const std::string& name) {
    // Names that the compiler makes contain a colon.
    if (name.find(':') == std::string::npos && seen.insert(name).second) names.push_back(name);
  };
  for (const ir::Value& value : graph.values) add(value.name);
  for (const ir::Alias& alias : graph.aliases) add(alias.name);
  return names;
}

std::vector<WrittenEntry> Instance::entries() const {
  std::vector<WrittenEntry> all;
  all.reserve(entries_.size());
  for (const auto& [name, entry] : entries_)
    all.push_back(
        {name, entry->op.text, reader_.sources.where(entry->op.span), entry->network.has_value()});
  return all;
}

void Instance::mark_read(std::string_view name, std::string_view prefix) {
  // The name "lenet/conv1/weight" marks "lenet/conv1" and "lenet" as read.
  while (name.size() > prefix.size()) {
    if (const auto entry = entries_.find(name); entry != entries_.end())
      usage_.read(entry->second->name);
    const size_t cut = name.find_last_of("/.");
    if (cut == std::string_view::npos) return;
    name = name.substr(0, cut);
  }
}

}  // namespace flow::job
