// `metrics:` becomes an entry for each metric, which pairs labels with predictions, and a hook that
// prints what all rows give together.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

using plan::MetricType;

/// The layer that makes the pairs; perplexity needs none.
std::string_view layer_of(MetricType type) {
  switch (type) {
    case MetricType::kTopKAccuracy:
      return "top_k_accuracy";
    case MetricType::kAuc:
      return "auc";
    case MetricType::kPerplexity:
      return "perplexity";
    default:
      return "class_pairs";
  }
}

class MetricReader {
 public:
  MetricReader(const yaml::Entry& field, const ParsedVariant& given, Job& job)
      : field_(field),
        fields_(given.fields()),
        type_(enumerator_of<MetricType>(words_of<MetricType>(), given.variant()->type)),
        job_(job) {}

  void read() {
    const plan::Metric metric = read_metric();
    const plan::PrintSink sink = read_sink(metric);
    if (!add_entry()) return;
    Hook hook;
    hook.pattern = {field_.key, field_.key_span};
    hook.metric = true;
    hook.sinks = {sink};
    hook.span = field_.key_span;
    job_.hooks.push_back(std::move(hook));
    job_.metrics.emplace_back(field_.key, metric);
  }

 private:
  bool has(std::string_view key) const { return fields_.has(key); }

  plan::Metric read_metric() const {
    plan::Metric metric{.type = type_};
    if (has("average")) metric.average = fields_.enumerator<plan::Average>("average");
    if (has("classes")) metric.classes = fields_.integer("classes").value_or(0);
    if (has("ignore_label")) metric.ignored = fields_.integer("ignore_label");
    return metric;
  }

  plan::PrintSink read_sink(const plan::Metric& metric) const {
    plan::PrintSink sink;
    sink.metric = metric;
    sink.over = job_.train ? plan::Over::kEpoch : plan::Over::kRun;
    if (fields_.find("over")) sink.over = fields_.enumerator<plan::Over>("over");
    sink.scale = *fields_.number("scale");
    sink.format = fields_.text("format").value_or(plan::is_number(metric) ? "%.4f" : "numpy");
    check_print_format(fields_, sink.format);
    return sink;
  }

  /// False after an error.
  bool add_entry() const {
    Entry entry;
    entry.name = {field_.key, field_.key_span};
    entry.op = {std::string(layer_of(type_)), fields_.owner()};
    entry.def = ops::find_spec(entry.op.text);
    entry.spans.op = fields_.owner();
    const std::vector<std::string_view> operands =
        has("losses") ? std::vector<std::string_view>{"losses"}
                      : std::vector<std::string_view>{"labels", "predictions"};
    for (const std::string_view key : operands) {
      const auto tensor = fields_.text(key);
      if (!tensor) return false;
      entry.operands.push_back({*tensor, fields_.find(key)->span});
      entry.spans.operands.push_back(fields_.find(key)->span);
    }
    for (const std::string_view key : {"axis", "k"}) {
      if (!has(key)) continue;
      const auto number = fields_.integer(key);
      if (!number) return false;
      set(entry, key, *number);
    }
    if (has("threshold")) set(entry, "threshold", *fields_.number("threshold"));
    job_.graph.entries.push_back(std::move(entry));
    return true;
  }

  void set(Entry& entry, std::string_view key, ir::Attribute value) const {
    entry.attributes.set(key, std::move(value));
    entry.spans.spans.emplace_back(key, fields_.key_span(key));
  }

  const yaml::Entry& field_;
  const Fields& fields_;
  const MetricType type_;
  Job& job_;
};

/// As other tools have it: a list of types.
std::string hint_for_list(const yaml::Node& node) {
  const bool words = node.is_list() && !node.items.empty() && node.items[0].is_scalar();
  if (!words) return kWithoutDashes;
  const std::string& type = node.items[0].scalar;
  return fmt::format("write `metrics: {{{}: {{type: {}, labels: NAME, predictions: NAME}}}}`", type,
                     find_variant(metrics(), type) ? type : "accuracy");
}

/// Metrics, entries and inputs share their names.
bool is_free(Reader& reader, const Name& name, const Job& job) {
  const auto is_taken = [&](const auto& named) { return named.name.text == name.text; };
  const auto entry = std::ranges::find_if(job.graph.entries, is_taken);
  const auto input = std::ranges::find_if(job.inputs, is_taken);
  if (entry == job.graph.entries.end() && input == job.inputs.end()) return true;
  const bool is_entry = entry != job.graph.entries.end();
  reader
      .error(
          Diagnosis::kNameTaken, name.span,
          fmt::format("metric `{}` has the name of an {}", name.text, is_entry ? "entry" : "input"))
      .label(is_entry ? entry->name.span : input->name.span, is_entry ? "the entry" : "the input");
  return false;
}

}  // namespace

void read_metrics(Reader& reader, const yaml::Node& node, Job& job) {
  if (!reader.expect(node, yaml::Kind::kMapping, "`metrics`", hint_for_list(node))) return;
  for (const yaml::Entry& field : node.entries) {
    if (reader.take_note(field)) continue;
    const Name name{field.key, field.key_span};
    if (!reader.check_name(name) || !is_free(reader, name, job)) continue;
    const ParsedVariant given(reader, field.value, field.key_span,
                              fmt::format("metric `{}`", name.text), metrics());
    if (given.variant()) MetricReader(field, given, job).read();
  }
}

}  // namespace flow::job
