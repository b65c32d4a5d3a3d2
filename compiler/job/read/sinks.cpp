// `to:`: where returned and watched values go.
#include <fmt/format.h>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "runtime/base/number_format.h"

namespace flow::job {

void check_print_format(const Fields& fields, const std::string& format) {
  if (format == "numpy" || is_number_format(format)) return;
  fields.reader()
      .error(Diagnosis::kPrintFormat, *fields.find("format"),
             fmt::format("`format` is `{}`; expected `numpy` or a C format", format))
      .with_hint("write `numpy`, or the C format of one number: `\"%.6g\"`");
}

namespace {

plan::Sink read_print(const Fields& fields) {
  plan::PrintSink sink;
  if (const yaml::Node* label = fields.find("label"))
    if (fields.reader().expect(*label, yaml::Kind::kScalar, "`label`")) sink.label = label->scalar;
  sink.reduce = fields.enumerator<plan::Reduce>("reduce");
  sink.over = fields.enumerator<plan::Over>("over");
  sink.scale = *fields.number("scale");
  sink.every = *fields.integer("every");
  if (fields.find("step")) sink.step = fields.flag("step");
  sink.format = *fields.text("format");
  check_print_format(fields, sink.format);
  return sink;
}

std::optional<plan::Sink> read_sink(Reader& reader, const yaml::Node& node) {
  const ParsedVariant given(reader, node, node.span, node.is_mapping() ? "a sink" : "`to`",
                            sinks());
  if (!given.variant()) return {};
  const Fields& fields = given.fields();
  const std::string_view type = given.variant()->type;
  if (type == "npy") return plan::NpySink{fields.word("layout") == "per_step"};
  if (type == "print") return read_print(fields);
  if (type == "command") return read_command(fields);
  if (type == "stats") return plan::StatsSink{*fields.integer("bins")};
  return plan::NoSink{};
}

/// Two sinks must not write the same file.
void check_files(Reader& reader, const yaml::Node& node, const std::vector<plan::Sink>& sinks) {
  int stacked = 0, per_step = 0, stats = 0;
  for (const plan::Sink& sink : sinks) {
    if (const auto* npy = std::get_if<plan::NpySink>(&sink)) ++(npy->per_step ? per_step : stacked);
    if (std::holds_alternative<plan::StatsSink>(sink)) ++stats;
  }
  if (stats > 1)
    reader.error(Diagnosis::kOutputTaken, node, "`to` writes stats.csv twice")
        .with_hint("use one stats sink");
  if (stacked < 2 && per_step < 2) return;
  reader.error(Diagnosis::kOutputTaken, node, "`to` writes the same .npy twice")
      .with_hint("use one npy sink, or set `layout: per_step` in a second one");
}

}  // namespace

std::vector<plan::Sink> read_sinks(Reader& reader, const yaml::Node* to) {
  if (!to) return {plan::NpySink{}};
  std::vector<plan::Sink> sinks;
  if (to->is_list() && to->items.empty())
    reader.error(Diagnosis::kBadScalar, *to, "`to` is empty; expected a sink")
        .with_hint("write `to: none` to deliver nothing");
  for (const yaml::Node& item : yaml::each_of(*to))
    if (auto sink = read_sink(reader, item)) sinks.push_back(std::move(*sink));
  check_files(reader, *to, sinks);
  return sinks;
}

}  // namespace flow::job
