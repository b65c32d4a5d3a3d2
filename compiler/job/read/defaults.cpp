// Writes or drops the defaults of a file, in one walk over the file according to its tables.
#include <algorithm>

#include "compiler/ir/describe_ops.h"
#include "compiler/ir/initializers.h"
#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

/// Returns a list for a text such as "[1, 1]".
yaml::Node list_in(std::string_view text) {
  std::vector<yaml::Node> items;
  for (const std::string& item : split(text.substr(1, text.size() - 2), ','))
    if (const std::string number = trimmed(item); !number.empty())
      items.push_back(yaml::scalar_node(number));
  return yaml::list_node(std::move(items));
}

/// Returns a node for "zeros", or for a type with a number such as "random_normal(0.02)".
yaml::Node initializer_node(std::string_view text) {
  const WrittenInitializer made = default_initializer(text);
  const yaml::Node type = yaml::scalar_node(std::string(plan::type_name(made)));
  if (const auto* constant = std::get_if<plan::initializers::Constant>(&made))
    return yaml::mapping_node(
        {{"type", {}, type}, {"value", {}, yaml::scalar_node(shortest(constant->value))}});
  const auto* normal = std::get_if<plan::initializers::Normal>(&made);
  if (!normal) return type;
  return yaml::mapping_node(
      {{"type", {}, type}, {"stddev", {}, yaml::scalar_node(shortest(normal->stddev))}});
}

/// Returns true if both values are equal. Compares numbers by value.
bool same_value(const yaml::Node& a, const yaml::Node& b) {
  if (a.kind != b.kind) return false;
  if (a.is_scalar()) {
    if (a.scalar == b.scalar) return true;
    const auto number = parse_number(a.scalar);
    return number && number == parse_number(b.scalar);
  }
  if (a.is_list()) return std::ranges::equal(a.items, b.items, same_value);
  return a.entries.size() == b.entries.size() &&
         std::ranges::all_of(a.entries, [&b](const yaml::Entry& entry) {
           const yaml::Node* other = b.find(entry.key);
           return other && same_value(entry.value, *other);
         });
}

/// Returns the default of an attribute that is absent from `entry`, or nothing if it cannot be
/// written.
std::optional<yaml::Node> default_of(const ops::OpSpec& op, const ops::AttributeSpec& def,
                                     const yaml::Node& entry) {
  const std::string_view text = def.fallback;
  if (text.empty() || is_unwritable(def)) return {};
  if (op.attribute(text)) {
    const yaml::Node* other = entry.find(text);
    return other ? std::optional(*other) : std::nullopt;
  }
  switch (def.type) {
    case ops::AttributeType::kRegularizer:
      return {};
    case ops::AttributeType::kInitializer:
      return initializer_node(text);
    default:
      return text.starts_with('[') ? list_in(text) : yaml::scalar_node(text);
  }
}

/// Inserts a key after the keys that precede it in `order`. If there are none, inserts it before
/// the keys that follow it, or else at the end.
void insert_key(yaml::Node& mapping, std::string_view key, yaml::Node value,
                const std::vector<std::string>& order) {
  const auto rank = [&order](std::string_view name) { return std::ranges::find(order, name); };
  const auto known = [&](const yaml::Entry& entry) { return rank(entry.key) != order.end(); };
  auto place = std::ranges::find_if(mapping.entries, known);
  for (auto entry = place; entry != mapping.entries.end(); ++entry)
    if (rank(entry->key) < rank(key)) place = entry + 1;
  mapping.entries.insert(place, {std::string(key), {}, std::move(value)});
}

/// Returns true for a section that can be empty and then means the same as if it were absent.
bool is_optional(const KeyDef& def) {
  return def.type == KeyType::kSection && !def.required() && !def.section->each &&
         def.section->one_of.empty() && std::ranges::none_of(def.section->keys, &KeyDef::required);
}

/// Returns the keys of a column that takes none from elsewhere, except for its paths.
std::vector<KeyDef> keys_of_column(const yaml::Node& column) {
  const auto& sources = plan::EnumNames<plan::SourceKind>::words;
  const auto source = std::ranges::find_if(sources, [&](auto key) { return column.find(key); });
  if (source == sources.end()) return {};
  const auto kind = enumerator_of<plan::SourceKind>(sources, *source);
  return column_keys(kind, implied_type(column, kind));
}

class Defaults {
 public:
  enum class Verb { kWrite, kDrop };
  Defaults(Reader& reader, yaml::Node& file, Verb verb)
      : reader_(reader), file_(file), writes_(verb == Verb::kWrite) {}

  void run() { visit_keys(file_, kFileSection.keys); }

 private:
  void visit(yaml::Node& node, const KeyDef& def) {
    switch (def.type) {
      case KeyType::kSection:
        return visit_section(node, *def.section);
      case KeyType::kSections:
        for (yaml::Node& item : node.items) visit_section(item, *def.section);
        return;
      case KeyType::kVariant:
        return visit_variant(node, *def.variants);
      case KeyType::kVariants:
        if (!node.is_list()) return visit_variant(node, *def.variants);
        for (yaml::Node& item : node.items) visit_variant(item, *def.variants);
        return;
      case KeyType::kSource:
        if (node.find("type")) visit_variant(node, *def.variants);
        return;
      case KeyType::kHooks:
      case KeyType::kAugment:
        for (yaml::Node& item : node.items) visit_kind(item, kinds_of(def));
        return;
      case KeyType::kEntry:
        return visit_call(node);
      default:
        return;
    }
  }

  void visit_section(yaml::Node& node, const Section& section) {
    if (!node.is_mapping()) return;
    if (&section == &kJobSection) train_ = node.find("type")->scalar == "train";
    if (&section == &kJobSection) first_.reset();
    if (&section == &kNetworkSection) first_ = only_input(node);
    if (&section == &kDatasetSection) return visit_dataset(node);
    if (section.each) {
      for (yaml::Entry& entry : node.entries)
        if (entry.key != "note" && !find_key(section.keys, entry.key))
          visit(entry.value, *section.each);
      if (section.each->type == KeyType::kEntry) visit_graph(node);
      return;
    }
    visit_keys(node, section.keys);
    if (&section == &kNetworkSection) visit_output(node);
    if (&section == &kReturnsSection) visit_type(node);
  }

  /// A column that takes keys from elsewhere keeps its own as they are: a default that it writes
  /// would hide the key that it takes.
  void visit_dataset(yaml::Node& node) {
    if (yaml::Node* options = node.find("options")) visit_section(*options, kOptionsSection);
    if (node.find("defaults")) return;
    for (yaml::Entry& entry : node.entries)
      if (entry.key != "note" && entry.key != "options" && entry.value.is_mapping() &&
          !entry.value.find("like"))
        visit_keys(entry.value, keys_of_column(entry.value));
  }

  void visit_keys(yaml::Node& node, const std::vector<KeyDef>& keys) {
    const std::vector<std::string> order = names_of(keys);
    for (const KeyDef& def : keys) {
      yaml::Node* given = node.find(def.name);
      if (given) visit(*given, def);
      if (given && !writes_ && says_default(*given, def)) node.erase(def.name);
      if (given || !writes_ || !may_stand(node, def)) continue;
      if (auto value = default_of_key(def)) insert_key(node, def.name, std::move(*value), order);
    }
  }

  /// Returns true if the value, from which defaults have been dropped, is the default.
  bool says_default(const yaml::Node& value, const KeyDef& def) const {
    if (is_optional(def) || (def.type == KeyType::kSections && !def.required()))
      return !value.is_scalar() && value.entries.empty() && value.items.empty();
    return def.has_default() && same_value(value, yaml::scalar_node(def.fallback));
  }

  bool may_stand(const yaml::Node& mapping, const KeyDef& def) const {
    if (def.train_only && !train_) return false;
    return std::ranges::none_of(def.unless, [&](auto other) { return mapping.find(other); });
  }

  std::optional<yaml::Node> default_of_key(const KeyDef& def) {
    if (is_optional(def)) {
      yaml::Node made = yaml::mapping_node();
      visit_section(made, *def.section);
      return made.entries.empty() ? std::nullopt : std::optional(std::move(made));
    }
    if (!def.has_default()) return {};
    yaml::Node made = yaml::scalar_node(def.fallback);
    visit(made, def);
    return made;
  }

  void visit_variant(yaml::Node& node, const VariantKind& kind) {
    const yaml::Node* type = node.is_scalar() ? &node : node.find("type");
    const Variant* variant = type ? find_variant(kind, type->scalar) : nullptr;
    if (!variant) return;
    if (node.is_scalar() && writes_) node = yaml::mapping_node({{"type", {}, node}});
    if (!node.is_mapping()) return;
    visit_keys(node, keys_of(kind, variant));
    shorten(node, kind, *variant);
  }

  /// Turns a mapping with only a type into a word, and one with only the number into the number.
  static void shorten(yaml::Node& node, const VariantKind& kind, const Variant& variant) {
    const bool alone = node.entries.size() == 1;
    const bool number = node.entries.size() == 2 && variant.type == kind.number &&
                        node.find(variant.keys.front().name);
    if (!(alone && kind.by_word) && !number) return;
    yaml::Node short_form = *node.find(alone ? "type" : variant.keys.front().name);
    node = std::move(short_form);
  }

  void visit_kind(yaml::Node& node, std::span<const Section> kinds) {
    for (const Section& section : kinds)
      if (node.find(section.keys.front().name)) visit_keys(node, section.keys);
  }

  void visit_call(yaml::Node& node) {
    const Callee callee = callee_of(file_, node);
    if (callee.op) visit_attributes(node, *callee.op);
    if (callee.network) visit_arguments(node, *callee.network);
    if (callee.network || callee.op) visit_keys(node, training_keys(callee.op));
    // If the placement is absent, that of the network or job applies, so a placement that equals
    // the default is not dropped.
    yaml::Node* placement = node.find("placement");
    if (placement && writes_) visit_section(*placement, kEntryPlacementSection);
    const yaml::Node* per_shard = node.find("per_shard");
    if (per_shard && !writes_ && same_value(*per_shard, yaml::scalar_node("false")))
      node.erase("per_shard");
  }

  void visit_attributes(yaml::Node& node, const ops::OpSpec& op) {
    std::vector<std::string> order{"op", "in"};
    for (const ops::OperandSpec& operand : op.operands) order.emplace_back(operand.name);
    for (const ops::AttributeSpec& def : op.attributes) order.emplace_back(def.name);
    for (const ops::AttributeSpec& def : op.attributes) {
      yaml::Node* given = node.find(def.name);
      if (!given && writes_ && !(node.find("variables") && is_of_variables(def)))
        if (auto value = default_of(op, def, node))
          insert_key(node, def.name, std::move(*value), order);
      given = node.find(def.name);
      if (given && def.type == ops::AttributeType::kInitializer)
        visit_variant(*given, kInitializers);
      if (!given || writes_) continue;
      const auto fallback = default_of(op, def, node);
      if (fallback && same_value(*given, *fallback)) node.erase(def.name);
    }
  }

  void visit_arguments(yaml::Node& node, const yaml::Node& network) {
    const yaml::Node* params = network.find("params");
    if (!params) return;
    std::vector<std::string> order{"op", "in"};
    for (const yaml::Entry& param : params->entries) order.push_back(param.key);
    for (const yaml::Entry& param : params->entries) {
      if (param.key == "note" || param.value.scalar == "required") continue;
      const yaml::Node* given = node.find(param.key);
      if (!given && writes_) insert_key(node, param.key, param.value, order);
      // The text is compared as well, because the param may be used inside text.
      else if (given && !writes_ && given->scalar == param.value.scalar &&
               same_value(*given, param.value))
        node.erase(param.key);
    }
  }

  /// Writes or drops the default of `in:`.
  void visit_graph(yaml::Node& graph) {
    std::optional<std::string> above = first_;
    for (yaml::Entry& entry : graph.entries) {
      const yaml::Node* in = entry.value.find("in");
      if (above && writes_ && reads_above(file_, entry.value))
        say_what_is_read(entry.value, *above);
      else if (above && !writes_ && in && in->is_scalar() && in->scalar == *above &&
               reads_above_by_default(file_, entry.value))
        entry.value.erase("in");
      above = entry.key;
    }
  }

  void visit_output(yaml::Node& network) {
    const yaml::Node* graph = network.find("graph");
    if (!graph || graph->entries.empty()) return;
    const yaml::Node last = yaml::scalar_node(graph->entries.back().key);
    const yaml::Node* given = network.find("output");
    if (!given && writes_) insert_key(network, "output", last, names_of(kNetworkSection.keys));
    if (given && !writes_ && same_value(*given, last)) network.erase("output");
  }

  void visit_type(yaml::Node& returns) {
    const auto type = inferred_type(reader_, *returns.find("value"));
    if (!type) return;
    const yaml::Node* given = returns.find("type");
    if (!given && writes_)
      insert_key(returns, "type", yaml::scalar_node(*type), names_of(kReturnsSection.keys));
    if (given && !writes_ && given->scalar == *type) returns.erase("type");
  }

  Reader& reader_;
  yaml::Node& file_;
  const bool writes_;
  bool train_ = false;
  std::optional<std::string> first_;  // the value that the first entry of a graph reads
};

}  // namespace

bool is_unwritable(const ops::AttributeSpec& def) {
  if (def.type == ops::AttributeType::kInteger) return def.fallback == "none";
  return def.type == ops::AttributeType::kNumber && !def.fallback.empty() &&
         !parse_number(def.fallback);
}

void write_defaults(Reader& reader, yaml::Node& file) {
  Defaults(reader, file, Defaults::Verb::kWrite).run();
}

void drop_defaults(Reader& reader, yaml::Node& file) {
  Defaults(reader, file, Defaults::Verb::kDrop).run();
}

}  // namespace flow::job
