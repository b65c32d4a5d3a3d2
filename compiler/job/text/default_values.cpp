// Defaults of tables as nodes.
#include "compiler/job/text/default_values.h"

#include <algorithm>

#include "compiler/ir/describe_ops.h"
#include "compiler/ir/initializers.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

/// "[1, 1]"
yaml::Node list_in(std::string_view text) {
  std::vector<yaml::Node> items;
  for (const std::string& item : split(text.substr(1, text.size() - 2), ','))
    if (const std::string number = trimmed(item); !number.empty())
      items.push_back(yaml::scalar_node(number));
  return yaml::list_node(std::move(items));
}

/// "zeros", or a type with its number: random_normal(0.02).
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

}  // namespace

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

bool is_unwritable(const ops::AttributeSpec& def) {
  if (def.type == ops::AttributeType::kInteger) return def.fallback == "none";
  return def.type == ops::AttributeType::kNumber && !def.fallback.empty() &&
         !parse_number(def.fallback);
}

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

void insert_key(yaml::Node& mapping, std::string_view key, yaml::Node value,
                const std::vector<std::string>& order) {
  const auto rank = [&order](std::string_view name) { return std::ranges::find(order, name); };
  const auto known = [&](const yaml::Entry& entry) { return rank(entry.key) != order.end(); };
  auto place = std::ranges::find_if(mapping.entries, known);
  for (auto entry = place; entry != mapping.entries.end(); ++entry)
    if (rank(entry->key) < rank(key)) place = entry + 1;
  mapping.entries.insert(place, {std::string(key), {}, std::move(value)});
}

}  // namespace flow::job
