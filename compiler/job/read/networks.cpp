// Reads networks: first all signatures, so that networks can be in any order, and each body when it
// is called.
#include "compiler/job/read/sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/job/tables/tables.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

// Limits the number of networks, which grows exponentially if nested copies pass their `$index` on.
constexpr size_t kMaxMade = 10'000;
constexpr size_t kMaxCalls = 64;

std::vector<Name> read_input_names(Reader& reader, const yaml::Node& node) {
  std::vector<Name> names;
  if (!reader.expect(node, yaml::Kind::kList, "`inputs` of a network")) {
    if (node.is_scalar() && is_name(node.scalar)) names.push_back({node.scalar, node.span});
    return names;
  }
  std::set<std::string> seen;
  for (const yaml::Node& item : node.items) {
    if (!reader.expect(item, yaml::Kind::kScalar, "an input's name")) continue;
    const Name name{item.scalar, item.span};
    reader.check_name(name);
    if (seen.insert(name.text).second)
      names.push_back(name);
    else
      reader.error(Diagnosis::kNameTaken, name.span, "duplicate input `{}`", name.text);
  }
  return names;
}

void read_output(Reader& reader, const yaml::Node* node, const std::string& last,
                 Network& network) {
  const auto named = [](const Entry& entry) { return entry.name.text; };
  if (!node) {
    const auto found = std::ranges::find(network.graph.entries, last, named);
    if (found != network.graph.entries.end()) network.output = found->name;
    return;
  }
  if (!reader.expect(*node, yaml::Kind::kScalar, "`output`",
                     "write one name; read other entries as `CALL/ENTRY`"))
    return;
  std::vector<std::string> names;
  for (const Entry& entry : network.graph.entries) names.push_back(entry.name.text);
  if (std::ranges::find(names, node->scalar) != names.end()) {
    network.output = {node->scalar, node->span};
    return;
  }
  reader
      .error(Diagnosis::kUnknownTensor, *node, "`output` is `{}`; expected an entry of `{}`",
             node->scalar, network.name.text)
      .with_hint(suggestion(node->scalar, names, "available entries:"));
}

/// Appends a text that is equal for equal values and differs for all others.
void append_key(const yaml::Node& node, std::string& key) {
  if (node.is_scalar()) {
    key += fmt::format("{}:{}", node.scalar.size(), node.scalar);
    return;
  }
  key += node.is_list() ? '[' : '{';
  for (const yaml::Node& item : node.items) append_key(item, key);
  for (const yaml::Entry& entry : node.entries) {
    key += fmt::format("{}:{}=", entry.key.size(), entry.key);
    append_key(entry.value, key);
  }
  key += node.is_list() ? ']' : '}';
}

std::string key_of(const Arguments& arguments) {
  std::string key;
  for (const auto& [name, value] : arguments) {
    key += name + "=";
    append_key(value, key);
  }
  return key;
}

}  // namespace

void Networks::declare(const yaml::Node& section) {
  for (const yaml::Entry& entry : reader_.entries(section, "`networks`")) declare_one(entry);
  for (Declaration& declaration : declarations_)
    if (declaration.signature.params.empty() && declaration.known.empty())
      read(declaration, {}, declaration.signature.name.span);
}

void Networks::declare_one(const yaml::Entry& entry) {
  Declaration& declaration = declarations_.emplace_back();
  Signature& signature = declaration.signature;
  declaration.node = &entry.value;
  signature.name = {entry.key, entry.key_span};
  by_name_.emplace(entry.key, declarations_.size() - 1);
  reader_.check_name(signature.name);
  if (ops::find_written_spec(entry.key))
    reader_.error(Diagnosis::kNameTaken, entry.key_span, "network `{}` has the name of an op",
                  entry.key);
  const Fields fields(reader_, entry.value, entry.key_span, kNetworkSection);
  if (const yaml::Node* found = fields.require("inputs")) {
    yaml::Node inputs = *found;
    variables_.substitute(inputs);
    signature.inputs = read_input_names(reader_, inputs);
    for (const Name& input : signature.inputs) check_taken(input, "an input");
  }
  if (const yaml::Node* params = fields.find("params")) read_params(*params, signature);
  fields.require("graph");
}

void Networks::read_params(const yaml::Node& node, Signature& signature) {
  yaml::Node params = node;
  if (params.is_scalar()) variables_.substitute(params);
  if (!reader_.expect(params, yaml::Kind::kMapping, "`params` of a network")) return;
  for (yaml::Entry& entry : params.entries) {
    if (reader_.take_note(entry)) continue;
    const Name name{entry.key, entry.key_span};
    reader_.check_name(name);
    check_taken(name, "a param");
    for (const Name& input : signature.inputs)
      if (input.text == entry.key)
        reader_
            .error(Diagnosis::kNameTaken, entry.key_span, "param `{}` has the name of an input",
                   entry.key)
            .label(input.span, "the input");
    variables_.substitute(entry.value);
    Signature::Param& param = signature.params.emplace_back(Signature::Param{name, {}});
    if (!entry.value.is_scalar() || entry.value.scalar != "required")
      param.fallback = std::move(entry.value);
  }
}

/// Reports a name that is a key of every call. Skips words that are reserved for all names, which
/// are reported elsewhere.
void Networks::check_taken(const Name& name, std::string_view what) {
  if (std::ranges::count(reserved_names(), name.text) > 0) return;
  std::vector<KeyDef> keys = training_keys(nullptr);
  keys.insert(keys.end(), kCallKeys.begin(), kCallKeys.end());
  for (const KeyDef& key : keys)
    if (key.name == name.text)
      reader_.error(Diagnosis::kReservedName, name.span,
                    "{} cannot have the name `{}`, a key of every network call", what, name.text);
}

const Signature* Networks::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &declarations_[found->second].signature;
}

std::vector<std::string> Networks::names() const {
  std::vector<std::string> names;
  for (const Declaration& declaration : declarations_)
    names.push_back(declaration.signature.name.text);
  return names;
}

std::optional<size_t> Networks::call(const Name& call, const Arguments& arguments) {
  Declaration& declaration = declarations_[by_name_.find(call.text)->second];
  declaration.called = true;
  return read(declaration, arguments, call.span);
}

std::optional<size_t> Networks::read(Declaration& declaration, const Arguments& arguments,
                                     Span call) {
  const std::string key = key_of(arguments);
  if (const auto found = declaration.known.find(key); found != declaration.known.end())
    return found->second;
  if (!may_read(declaration, call)) return {};
  Locals locals;
  for (const Signature::Param& param : declaration.signature.params) {
    const auto given =
        std::ranges::find(arguments, param.name.text, &std::pair<std::string, yaml::Node>::first);
    locals.push_back({param.name.text, given == arguments.end() ? param.fallback : given->second});
  }
  const bool again = !declaration.known.empty();
  const size_t notes = reader_.notes.size();
  declaration.open = true;
  path_.push_back(declaration.signature.name.text);
  made_.push_back(read_body(declaration, locals));
  path_.pop_back();
  declaration.open = false;
  if (again) reader_.notes.resize(notes);
  declaration.known.emplace(key, made_.size() - 1);
  return made_.size() - 1;
}

bool Networks::may_read(const Declaration& declaration, Span call) {
  if (declaration.open) {
    report_recursion(declaration, call);
    return false;
  }
  if (path_.size() == kMaxCalls) {
    reader_.error(Diagnosis::kNesting, declaration.signature.name.span,
                  "networks call each other more than {} levels deep", kMaxCalls);
    return false;
  }
  if (made_.size() < kMaxMade) return variables_.may_copy(*declaration.node, call);
  reader_.error(Diagnosis::kOutOfRange, call,
                "networks are called with more than {} different arguments", kMaxMade);
  return false;
}

void Networks::report_recursion(const Declaration& declaration, Span call) {
  const std::string& name = declaration.signature.name.text;
  const auto from = std::ranges::find(path_, name);
  std::vector<std::string> cycle(from, path_.end());
  cycle.push_back(name);
  reader_.error(Diagnosis::kRecursion, call, "network `{}` calls itself: {}", name,
                join(cycle, " -> "));
}

Network Networks::read_body(const Declaration& declaration, const Locals& locals) {
  const Signature& signature = declaration.signature;
  Network network;
  network.name = signature.name;
  network.inputs = signature.inputs;
  if (!declaration.node->is_mapping()) return network;
  const yaml::Node* found = declaration.node->find("graph");
  if (!found) return network;
  yaml::Node graph = *found;
  if (graph.is_scalar()) variables_.substitute(graph, locals);
  network.graph = read_graph(reader_, &graph, signature.inputs, *this, locals, false);
  if (!graph.is_mapping()) return network;
  if (graph.entries.empty()) {
    reader_.error(Diagnosis::kMissingKey, signature.name.span, "network `{}` has no entries",
                  signature.name.text);
    return network;
  }
  const yaml::Node* output = declaration.node->find("output");
  yaml::Node named = output ? *output : yaml::Node{};
  variables_.substitute(named, locals);
  read_output(reader_, output ? &named : nullptr, graph.entries.back().key, network);
  return network;
}

void Networks::read_uncalled() {
  for (Declaration& declaration : declarations_)
    if (declaration.known.empty()) read(declaration, {}, declaration.signature.name.span);
}

std::vector<Name> Networks::uncalled() const {
  std::vector<Name> names;
  for (const Declaration& declaration : declarations_)
    if (!declaration.called) names.push_back(declaration.signature.name);
  return names;
}

}  // namespace flow::job
