// Reads `to:`, the sinks of returned and watched values, including command sinks, which are
// programs that receive events.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/environment_text.h"

namespace flow::job {
namespace {

/// Environment variables that the run sets for its commands.
constexpr std::array<std::string_view, 9> kTold = {"FLOW_RUN_DIR", "FLOW_EVENT", "FLOW_JOB",
                                                   "FLOW_NAME",    "FLOW_STEP",  "FLOW_EPOCH",
                                                   "FLOW_DTYPE",   "FLOW_SHAPE", "FLOW_MAIN_STEP"};

/// Reports a NUL character, at which the operating system would cut the text off.
bool check_nul(Reader& reader, const yaml::Node& node, const std::string& text,
               std::string_view what) {
  if (text.find('\0') == std::string::npos) return true;
  reader.error(Diagnosis::kCommand, node,
               "{} contains a NUL character, which no program can receive", what);
  return false;
}

/// Reads one line for a shell, or a program and its arguments.
void read_run(Reader& reader, const yaml::Node& node, plan::CommandSink& sink) {
  sink.shell = node.is_scalar();
  if (node.is_scalar()) {
    if (const auto line = read_text(reader, node, "`run`");
        line && check_nul(reader, node, *line, "`run`"))
      sink.run = {*line};
    return;
  }
  if (!reader.expect(node, yaml::Kind::kList, "`run`")) return;
  if (node.items.empty() || (node.items[0].is_scalar() && node.items[0].scalar.empty())) {
    reader.error(Diagnosis::kCommand, node, "missing program in `run`")
        .with_hint("write a program and its arguments, or one line for the shell");
    return;
  }
  for (const yaml::Node& word : node.items)
    if (reader.expect(word, yaml::Kind::kScalar, "an argument of `run`") &&
        check_nul(reader, word, word.scalar, "an argument of `run`"))
      sink.run.push_back(word.scalar);
}

/// Reads an environment variable. A plan contains only references to the environment and not their
/// values, because these may contain passwords.
void read_variable(Reader& reader, const yaml::Entry& entry, plan::CommandSink& sink) {
  const yaml::Node& value = entry.value;
  const std::string text =
      value.unexpanded.empty() ? plan::with_doubled_dollars(value.scalar) : value.unexpanded;
  if (check_nul(reader, value, text, fmt::format("`{}`", entry.key))) sink.env[entry.key] = text;
}

void read_environment(Reader& reader, const yaml::Node& node, plan::CommandSink& sink) {
  for (const yaml::Entry& entry : reader.entries(node, "`env`")) {
    if (!is_name(entry.key))
      reader.error(Diagnosis::kBadName, entry.key_span, "invalid environment variable name `{}`",
                   entry.key);
    else if (std::ranges::find(kTold, entry.key) != kTold.end())
      reader.error(Diagnosis::kCommand, entry.key_span,
                   "reserved environment variable `{}`; flowrun sets it", entry.key);
    else if (reader.expect(entry.value, yaml::Kind::kScalar, fmt::format("`{}`", entry.key)))
      read_variable(reader, entry, sink);
  }
}

/// Reads a timeout such as "30s", or `none`.
std::optional<double> read_timeout(Reader& reader, const yaml::Node& node) {
  const auto text = read_text(reader, node, "`timeout`");
  if (!text || *text == "none") return {};
  const auto seconds = text->ends_with('s')
                           ? parse_number(std::string_view(*text).substr(0, text->size() - 1))
                           : std::nullopt;
  if (seconds && *seconds > 0 && *seconds <= plan::kLongestTimeout) return seconds;
  reader
      .error(Diagnosis::kCommand, node,
             seconds ? fmt::format("`timeout` is `{}`; expected more than 0s and at most {:.0f}s",
                                   *text, plan::kLongestTimeout)
                     : fmt::format("`timeout` is `{}`; expected a number of seconds", *text))
      .with_hint(
          seconds ? "" : fmt::format("write `{}s`, or `none`", parse_number(*text) ? *text : "30"));
  return {};
}

plan::Sink read_command(const Fields& fields) {
  Reader& reader = fields.reader();
  plan::CommandSink sink;
  if (const yaml::Node* run = fields.require("run")) read_run(reader, *run, sink);
  if (const yaml::Node* env = fields.find("env")) read_environment(reader, *env, sink);
  sink.mode = fields.enumerator<plan::CommandSink::Mode>("mode");
  sink.format = fields.enumerator<plan::CommandSink::Format>("format");
  sink.on_error = fields.enumerator<plan::CommandSink::OnError>("on_error");
  if (const yaml::Node* timeout = fields.find("timeout"))
    sink.timeout = read_timeout(reader, *timeout);
  sink.ack = *fields.flag("ack");
  if (sink.ack && sink.mode == plan::CommandSink::Mode::kSpawn)
    reader
        .error(Diagnosis::kCommand, fields.key_span("ack"),
               "`ack` is not supported with `mode: spawn`")
        .with_hint("delete `ack`: the exit of the command acknowledges the event");
  return sink;
}

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
  const ParsedVariant given(reader, node, node.span, node.is_mapping() ? "a sink" : "`to`", kSinks);
  if (!given.variant()) return {};
  const Fields& fields = given.fields();
  const std::string_view type = given.variant()->type;
  if (type == "npy") return plan::NpySink{fields.word("layout") == "per_step"};
  if (type == "print") return read_print(fields);
  if (type == "command") return read_command(fields);
  if (type == "stats") return plan::StatsSink{*fields.integer("bins")};
  return plan::NoSink{};
}

/// Reports two sinks that would write the same file.
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

void check_print_format(const Fields& fields, const std::string& format) {
  if (format == "numpy" || is_number_format(format)) return;
  fields.reader()
      .error(Diagnosis::kPrintFormat, *fields.find("format"),
             "`format` is `{}`; expected `numpy` or a C format", format)
      .with_hint("write `numpy`, or the C format of one number: `\"%.6g\"`");
}

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
