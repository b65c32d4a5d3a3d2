// Writes the text of a job file.
#include "runtime/onnx/job_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <iterator>

#include "ops/core/attributes.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"

namespace flow::onnx {
namespace {

/// The words that must not be names of entries and variables.
constexpr std::array kReserved = {"seed", "note", "op", "in",  "repeat", "placement", "variables",
                                  "yes",  "no",   "on", "off", "true",   "false",     "null"};

constexpr size_t kLongestName = 100;

bool is_reserved(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(kReserved, lower) != kReserved.end();
}

/// Returns true if a text can be written without quotes. Other texts contain no quotes and no
/// backslashes.
bool is_word(std::string_view text) {
  return std::ranges::all_of(
      text, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}

/// Writes [0 1 2 3] as [[0, 1], [2, 3]].
std::string pairs_text(const std::vector<int64_t>& numbers) {
  std::vector<std::string> pairs;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2)
    pairs.push_back(fmt::format("[{}, {}]", numbers[i], numbers[i + 1]));
  return "[" + join(pairs, ", ") + "]";
}

/// The attributes that have a number for each dimension, or one for all.
constexpr std::array<std::string_view, 6> kOneForAll = {
    "kernel_size", "strides", "dilation_rate", "ksize", "output_padding", "axis"};

std::string attribute_text(const ops::AttributeSpec& spec, const ops::Attribute& value) {
  const auto* numbers = std::get_if<std::vector<int64_t>>(&value);
  if (numbers &&
      (spec.type == ops::AttributeType::kPairs || spec.type == ops::AttributeType::kPadding))
    return pairs_text(*numbers);
  if (numbers && std::ranges::find(kOneForAll, spec.name) != kOneForAll.end() &&
      !numbers->empty() && std::ranges::count(*numbers, numbers->front()) == std::ssize(*numbers))
    return std::to_string(numbers->front());
  const auto* text = std::get_if<std::string>(&value);
  return text && !is_word(*text) ? '"' + *text + '"' : ops::text_of(value);
}

/// Returns true if the value is the op's default.
bool is_default(const ops::AttributeSpec& spec, const ops::Attribute& value) {
  if (spec.fallback.empty()) return false;
  const auto* number = std::get_if<double>(&value);
  if (!number) return attribute_text(spec, value) == spec.fallback;
  double fallback = 0;
  const char* end = spec.fallback.data() + spec.fallback.size();
  return std::from_chars(spec.fallback.data(), end, fallback).ptr == end && fallback == *number;
}

/// Returns a double-quoted YAML string. A `$` in the text does not refer to a variable.
std::string quoted_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '$') quoted += '$';
    quoted += c;
  }
  return quoted + '"';
}

/// Returns true if the op takes its operands as a list, `in: [a, b]`.
bool takes_list(const ops::OpSpec& op) {
  return op.operands.size() > 1 && op.operands[0].name == "a";
}

}  // namespace

std::string legal_name(std::string_view name) {
  std::string legal(name.substr(0, kLongestName));
  for (char& c : legal)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  if (legal.empty() || std::isdigit(static_cast<unsigned char>(legal[0]))) legal.insert(0, "t");
  return is_reserved(legal) ? legal + "_" : legal;
}

std::string UniqueNames::add(std::string_view wanted) {
  const std::string legal = legal_name(wanted);
  std::string name = legal;
  if (taken_.insert(name).second) return name;
  int64_t& last = last_.try_emplace(legal, 1).first->second;
  while (!taken_.insert(name).second) name = fmt::format("{}_{}", legal, ++last);
  return name;
}

void JobWriter::drop_unread() {
  std::vector<bool> read(entries.size(), false);
  const auto visit = [&](const Reference& reference) {
    if (reference.kind == Reference::Kind::kEntry) read[reference.index] = true;
  };
  for (const auto& [name, reference] : outputs) visit(reference);
  // The loop goes backward, because an entry only reads earlier ones.
  for (size_t i = entries.size(); i-- > 0;) {
    if (!read[i]) continue;
    for (const Reference& operand : entries[i].operands) visit(operand);
    if (entries[i].shares) read[*entries[i].shares] = true;
    pins.insert(entries[i].pins.begin(), entries[i].pins.end());
  }
  std::vector<size_t> moved(entries.size(), 0);
  size_t kept = 0;
  for (size_t i = 0; i < entries.size(); ++i)
    if (read[i]) {
      moved[i] = kept;
      if (kept != i) entries[kept] = std::move(entries[i]);
      ++kept;
    }
  entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(kept), entries.end());
  const auto move = [&](Reference& reference) {
    if (reference.kind == Reference::Kind::kEntry) reference.index = moved[reference.index];
  };
  for (auto& [name, reference] : outputs) move(reference);
  for (JobEntry& entry : entries) {
    for (Reference& operand : entry.operands) move(operand);
    if (entry.shares) entry.shares = moved[*entry.shares];
  }
}

void JobWriter::assign_names() {
  for (const auto& [name, size] : sizes) names_.take(name);
  for (const JobInput& input : inputs) input_names_.push_back(names_.add(input.name));
  entry_names_.resize(entries.size());
  for (const auto& [name, reference] : outputs)
    if (reference.kind == Reference::Kind::kEntry && entry_names_[reference.index].empty())
      entry_names_[reference.index] = names_.add(entries[reference.index].name);
  for (size_t i = 0; i < entries.size(); ++i)
    if (entry_names_[i].empty()) entry_names_[i] = names_.add(entries[i].name);
}

std::string JobWriter::text_of(const Reference& reference) const {
  if (reference.kind == Reference::Kind::kNone) return "";
  if (reference.kind == Reference::Kind::kNumber) return reference.text;
  if (reference.kind == Reference::Kind::kInput) return input_names_[reference.index];
  const std::string& name = entry_names_[reference.index];
  return reference.text.empty() ? name : name + "." + reference.text;
}

std::string JobWriter::entry_text(const JobEntry& entry) const {
  std::vector<std::string> parts = {"op: " + std::string(entry.op->name)}, operands;
  for (const Reference& operand : entry.operands) operands.push_back(text_of(operand));
  if (takes_list(*entry.op) || operands.size() > entry.op->operands.size() ||
      (!entry.op->operands.empty() && entry.op->operands[0].variadic)) {
    parts.push_back(fmt::format("in: [{}]", join(operands, ", ")));
  } else {
    for (size_t i = 0; i < operands.size(); ++i)
      if (entry.operands[i].kind != Reference::Kind::kNone)
        parts.push_back(fmt::format(
            "{}: {}", operands.size() == 1 ? "in" : entry.op->operands[i].name, operands[i]));
  }
  for (const ops::AttributeSpec& spec : entry.op->attributes) {
    const ops::Attribute* value = entry.attributes.find(spec.name);
    const auto text = entry.texts.find(spec.name);
    if (text != entry.texts.end())
      parts.push_back(fmt::format("{}: {}", spec.name, text->second));
    else if (value && !is_default(spec, *value))
      parts.push_back(fmt::format("{}: {}", spec.name, attribute_text(spec, *value)));
  }
  if (entry.shares) parts.push_back("variables: " + entry_names_[*entry.shares]);
  return "{" + join(parts, ", ") + "}";
}

std::string JobWriter::input_text(const JobInput& input) const {
  std::vector<std::string> extents;
  for (int axis = 0; axis < input.shape.rank(); ++axis) {
    const auto named = input.variables.find(axis);
    extents.push_back(named == input.variables.end() ? std::to_string(input.shape[axis])
                                                     : "$" + named->second);
  }
  return fmt::format("{{shape: [{}], dtype: {}{}}}", join(extents, ", "), name_of(input.dtype),
                     input.rows || input.shape.rank() == 0 ? "" : ", rows: false");
}

std::string JobWriter::returns_text() const {
  if (outputs.size() == 1) return text_of(outputs[0].second);
  const bool by_name = std::ranges::all_of(
      outputs, [&](const auto& output) { return text_of(output.second) == output.first; });
  std::vector<std::string> values;
  UniqueNames keys;
  for (const auto& [name, reference] : outputs) {
    const std::string text = text_of(reference);
    const std::string key = keys.add(name);
    values.push_back(by_name ? text : fmt::format("{}: {}", key, text));
  }
  const std::string list = join(values, ", ");
  return by_name ? "[" + list + "]" : "{" + list + "}";
}

/// Returns the rest of the head, `vars`, and checks of the variables that must keep their values.
std::string JobWriter::sizes_text() const {
  std::vector<std::string> values, flags, dimensions;
  std::string checks;
  for (const auto& [name, size] : sizes) {
    values.push_back(fmt::format("{}: {}", name, size));
    if (!pins.contains(name)) {
      flags.push_back(fmt::format("--set vars.{}=SIZE", name));
      continue;
    }
    dimensions.push_back(fmt::format("--dim {}=SIZE", name));
    checks += fmt::format(
        "  {0}: {{that: $({0} == {1}), message: \"{0} is $({0}); the graph was imported for {1}; "
        "import the model again with --dim {0}=$({0})\"}}\n",
        name, size);
  }
  std::string text;
  if (!flags.empty())
    text += fmt::format("#\n# For inputs of other sizes, add {}.\n", join(flags, " "));
  if (!dimensions.empty())
    text += fmt::format("#\n# For other sizes, import the model again with {}.\n",
                        join(dimensions, " "));
  text += "flow: 1\n";
  if (!sizes.empty()) text += fmt::format("vars: {{{}}}\n", join(values, ", "));
  return checks.empty() ? text : text + "checks:\n" + checks;
}

std::string JobWriter::text(std::string_view head) const {
  std::string text(head);
  text += fmt::format("#   flowrun {}", file);
  for (const std::string& name : input_names_) text += fmt::format(" --input {0}=@{0}.npy", name);
  text += " -o out\n" + sizes_text() + "\njobs:\n  predict:\n    type: predict\n";
  if (precision != "float32") text += fmt::format("    precision: {}\n", precision);
  if (!inputs.empty()) text += "    inputs:\n";
  for (size_t i = 0; i < inputs.size(); ++i)
    text += fmt::format("      {}: {}\n", input_names_[i], input_text(inputs[i]));
  if (!entries.empty()) text += "    graph:\n";
  for (size_t i = 0; i < entries.size(); ++i)
    text += fmt::format("      {}: {}\n", entry_names_[i], entry_text(entries[i]));
  text += fmt::format("    returns: {{value: {}}}\n", returns_text());
  const bool any =
      std::ranges::any_of(entries, [](const JobEntry& entry) { return !entry.variables.empty(); });
  if (any) text += fmt::format("    run: {{checkpoint: {{load: {}}}}}\n", quoted_text(weights));
  return text;
}

std::map<std::string, Array> JobWriter::take_variables() {
  std::map<std::string, Array> all;
  for (size_t i = 0; i < entries.size(); ++i)
    for (auto& [name, array] : entries[i].variables)
      all.emplace(name.empty() ? entry_names_[i] : entry_names_[i] + "/" + name, std::move(array));
  return all;
}

}  // namespace flow::onnx
