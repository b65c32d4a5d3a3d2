// `to:`: where returned and watched values go.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/sections.h"
#include "compiler/job/values.h"
#include "runtime/base/number_format.h"

namespace flow::job {
namespace {

const std::vector<std::string>& types() {
  static const std::vector<std::string> kAll = {"npy", "print", "command", "none"};
  return kAll;
}

plan::Sink read_npy(Reader& reader, const yaml::Node& node, Span owner) {
  const Fields fields(reader, node, owner, "an npy sink", {"type", "layout"});
  plan::NpySink sink;
  if (const yaml::Node* layout = fields.find("layout"))
    sink.per_step = read_choice(reader, *layout, "`layout`", {"stacked", "per_step"}) == "per_step";
  return sink;
}

template <typename T>
T read_word(const Fields& fields, std::string_view key, const std::vector<std::string>& words) {
  const yaml::Node* node = fields.find(key);
  if (!node) return T{};
  const auto word = read_choice(fields.reader(), *node, fmt::format("`{}`", key), words);
  return word ? static_cast<T>(std::ranges::find(words, *word) - words.begin()) : T{};
}

plan::Sink read_print(Reader& reader, const yaml::Node& node, Span owner) {
  const Fields fields(reader, node, owner, "a print sink",
                      {"type", "label", "reduce", "over", "scale", "format", "every"});
  plan::PrintSink sink;
  if (const yaml::Node* label = fields.find("label"))
    if (reader.expect(*label, yaml::Kind::kScalar, "`label`")) sink.label = label->scalar;
  sink.reduce =
      read_word<plan::Reduce>(fields, "reduce", {"none", "mean", "sum", "min", "max", "norm"});
  sink.over = read_word<plan::Over>(fields, "over", {"step", "epoch", "run"});
  if (const yaml::Node* scale = fields.find("scale"))
    sink.scale = read_number(reader, *scale, "`scale`").value_or(1);
  if (const yaml::Node* every = fields.find("every"))
    sink.every = read_integer(reader, *every, "`every`", {.min = 1}).value_or(1);
  if (const yaml::Node* format = fields.find("format")) {
    if (const auto text = read_text(reader, *format, "`format`")) sink.format = *text;
    if (format->is_scalar() && sink.format != "numpy" && !is_number_format(sink.format))
      reader
          .error(Diagnosis::kPrintFormat, *format,
                 fmt::format("`format` is `{}`, which formats no number", sink.format))
          .with_hint("write `numpy`, or one number's format as in C: \"%.6g\"");
  }
  return sink;
}

std::optional<plan::Sink> read_sink(Reader& reader, const yaml::Node& node) {
  const yaml::Node* type = &node;
  yaml::Node plain;  // of a sink that is its type alone
  plain.kind = yaml::Kind::kMapping;
  if (node.is_mapping()) {
    type = node.find("type");
    if (!type) {
      reader.error(Diagnosis::kMissingKey, node, "a sink needs `type`");
      return {};
    }
  }
  const auto name = read_choice(reader, *type, node.is_mapping() ? "`type`" : "`to`", types());
  if (!name) return {};
  const yaml::Node& options = node.is_mapping() ? node : plain;
  if (*name == "npy") return read_npy(reader, options, type->span);
  if (*name == "print") return read_print(reader, options, type->span);
  if (*name == "command") return read_command(reader, options, type->span);
  Fields(reader, options, type->span, "`none`", {"type"});
  return plan::NoSink{};
}

}  // namespace

std::vector<plan::Sink> read_sinks(Reader& reader, const yaml::Node& node) {
  std::vector<plan::Sink> sinks;
  const auto add = [&](const yaml::Node& item) {
    if (auto sink = read_sink(reader, item)) sinks.push_back(std::move(*sink));
  };
  if (node.is_list())
    for (const yaml::Node& item : node.items) add(item);
  else
    add(node);
  return sinks;
}

}  // namespace flow::job
