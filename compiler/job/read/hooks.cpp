// Reads `hooks:` and `--watch`: the watched tensors, the steps, and the sinks. Turns each of
// `metrics:` into an entry, which pairs labels with predictions, and a hook, which prints the
// metric over all rows.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/condition.h"

namespace flow::job {
namespace {

/// Parses "7", "5..8" or "100..1000/100".
std::optional<plan::StepRange> parse_steps(std::string_view text) {
  plan::StepRange range;
  if (const auto step = parse_integer(text); step && *step >= 0 && *step < INT64_MAX)
    return plan::StepRange{*step, *step + 1, 1};
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto stride = parse_bound(text.substr(slash + 1));
    if (!stride || *stride < 1) return {};
    range.stride = *stride;
  }
  const auto ends = parse_range(text.substr(0, slash));
  if (!ends || ends->first < 0 || ends->second <= ends->first) return {};
  range.first = ends->first;
  range.end = ends->second;
  return range;
}

std::vector<plan::StepRange> read_steps(Reader& reader, const yaml::Node& node) {
  std::vector<plan::StepRange> ranges;
  for (const yaml::Node& item : yaml::each_of(node)) {
    if (!reader.expect(item, yaml::Kind::kScalar, "a step")) continue;
    if (const auto range = parse_steps(item.scalar))
      ranges.push_back(*range);
    else
      reader.error(Diagnosis::kStepList, item, "invalid steps `{}`", item.scalar)
          .with_hint(
              "write a step, `5..8` for 5, 6 and 7, `5..` for 5 and later, or `100..1000/100` for "
              "every 100th");
  }
  if (node.is_list() && node.items.empty())
    reader.error(Diagnosis::kStepList, node, "`steps` is empty; expected at least one step");
  return ranges;
}

/// Returns the text of a condition if it can be parsed.
std::optional<std::string> read_condition(Reader& reader, const yaml::Node& node) {
  const auto text = read_text(reader, node, "`when`");
  if (!text) return {};
  plan::ConditionError error;
  if (plan::parse_condition(*text, error)) return text;
  reader.error(Diagnosis::kCondition, yaml::place_in(node, error.begin, error.end), error.message)
      .with_hint(error.hint);
  return {};
}

void read_steps_and_condition(const Fields& fields, Hook& hook) {
  Reader& reader = fields.reader();
  const yaml::Node *every = fields.find("every"), *steps = fields.find("steps");
  if (every && steps)
    reader
        .error(Diagnosis::kStepList, fields.key_span("steps"),
               "a hook has both `every` and `steps`; expected one of them")
        .label(fields.key_span("every"), "also set here");
  if (every) hook.plan.steps = {{0, Hook::kForever, *fields.integer("every")}};
  if (steps) hook.plan.steps = read_steps(reader, *steps);
  if (const yaml::Node* when = fields.find("when")) {
    hook.plan.when = read_condition(reader, *when);
    hook.when_span = when->span;
  }
  hook.plan.stops = fields.word("then").has_value();
  if (hook.plan.stops && !fields.find("when"))
    reader
        .error(Diagnosis::kCondition, fields.key_span("then"),
               "`then` without `when`; expected a condition")
        .with_hint("add `when: ...`, such as `when: \"max > 1e3\"`");
}

/// Reads `as:`, which names a folder of the run directory.
void read_output(const Fields& fields, Hook& hook) {
  const yaml::Node* as = fields.find("as");
  if (!as) return;
  const auto text = read_text(fields.reader(), *as, "`as`");
  if (!text) return;
  const auto parts = split(*text, '/');
  if (std::ranges::all_of(parts, [](const std::string& part) { return is_name(part); }))
    hook.output = Name{*text, as->span};
  else
    fields.reader().error(Diagnosis::kBadName, *as,
                          "`as` is `{}`; expected a name, or names joined by `/`", *text);
}

/// Returns the key of the watched tensors in the section: `watch`, `watch_diff` or `watch_scope`.
std::string_view kind_key(const Section& section) { return section.keys.front().name; }

/// Returns the section of the first key that names one. Reports an error and returns null if there
/// is no such key.
const Section* section_of(Reader& reader, const yaml::Node& node, Span start) {
  const Section* found = nullptr;
  for (const yaml::Entry& entry : node.entries) {
    const auto named = std::ranges::find(kHookSections, entry.key, kind_key);
    if (named == kHookSections.end()) continue;
    if (!found)
      found = &*named;
    else if (kind_key(*found) != entry.key)
      reader.error(Diagnosis::kUnknownKey, entry.key_span,
                   "a hook has both `{}` and `{}`; expected one of them", kind_key(*found),
                   entry.key);
  }
  if (!found)
    reader.error(Diagnosis::kMissingKey, start,
                 "a hook requires `watch`, `watch_diff` or `watch_scope`");
  return found;
}

void read_gradient_options(const Fields& fields, bool train, Hook& hook) {
  Reader& reader = fields.reader();
  if (fields.find("of")) hook.mean = fields.word("of") == "mean";
  const yaml::Node* diffs = fields.find("diffs");
  hook.diffs = diffs ? fields.flag("diffs").value_or(false) : train;
  if (diffs && hook.diffs && !train)
    reader.error(Diagnosis::kNoGradient, *diffs, "a predict job has no gradients");
}

/// Returns the keys of the section, or of all sections if it is unknown. Always accepts the watch
/// keys of other sections, because these were already reported.
std::vector<KeyDef> hook_keys(const Section* section) {
  std::vector<KeyDef> keys;
  for (const Section& one : kHookSections) keys.push_back(one.keys.front());
  for (const Section& one : kHookSections)
    if (!section || section == &one)
      for (const KeyDef& key : one.keys)
        if (!find_key(keys, key.name)) keys.push_back(key);
  return keys;
}

/// Returns one hook for each name or glob in `watched`.
std::vector<Hook> hooks_of(Reader& reader, const yaml::Node& watched, std::string_view key,
                           const Hook& hook) {
  std::vector<Hook> hooks;
  const auto names = read_globs(reader, watched, fmt::format("`{}`", key));
  for (const Name& name : names.value_or(std::vector<Name>())) {
    hooks.push_back(hook);
    hooks.back().pattern = name;
  }
  return hooks;
}

std::vector<Hook> read_hook(Reader& reader, const yaml::Node& node, bool train) {
  if (!reader.expect(node, yaml::Kind::kMapping, "a hook",
                     node.is_scalar() ? fmt::format("write `{{watch: {}}}`", as_written(node))
                                      : std::string()))
    return {};
  const Span start{node.span.source, node.span.begin, node.span.begin + 1};
  const Section* section = section_of(reader, node, start);
  const Fields fields(reader, node, start, "a hook", hook_keys(section));
  if (!section) return {};
  const std::string_view key = kind_key(*section);
  Hook hook;
  hook.kind = static_cast<Hook::Kind>(section - kHookSections.data());
  hook.span = fields.key_span(key);
  read_steps_and_condition(fields, hook);
  read_output(fields, hook);
  read_gradient_options(fields, train, hook);
  hook.plan.per_device = fields.word("type") == "ListNumpy";
  hook.plan.check_finite = fields.word("check").has_value();
  const yaml::Node* to = fields.find("to");
  hook.plan.sinks = read_sinks(reader, to);
  if (to)
    check_expected(reader, *to,
                   hook.plan.per_device ? plan::ReturnValue::Kind::kListNumpy
                                        : plan::ReturnValue::Kind::kNumpy);
  return hooks_of(reader, *fields.find(key), key, hook);
}

}  // namespace

std::vector<Hook> read_hooks(Reader& reader, const yaml::Node& node, bool train) {
  std::vector<Hook> hooks;
  if (!reader.expect(node, yaml::Kind::kList, "`hooks`", hint_for_item(node))) return hooks;
  for (const yaml::Node& item : node.items)
    for (Hook& hook : read_hook(reader, item, train)) hooks.push_back(std::move(hook));
  return hooks;
}

std::optional<Hook> read_hook_option(Reader& reader, std::string_view option,
                                     const std::string& text, Hook::Kind kind) {
  const int32_t source = reader.sources.add_words(fmt::format("{} {}", option, text), text);
  const auto span = [source](size_t begin, size_t end) {
    return Span{source, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  };
  const size_t colon = std::min(text.rfind(':'), text.size());
  Hook hook;
  hook.kind = kind;
  hook.diffs = true;
  hook.pattern = {text.substr(0, colon), span(0, colon)};
  hook.span = span(0, text.size());
  hook.plan.sinks = read_sinks(reader, nullptr);
  if (hook.pattern.text.empty()) {
    reader.error(Diagnosis::kBadOverride, hook.span, "`{}` requires a name", option);
    return {};
  }
  if (colon == text.size()) return hook;
  const yaml::Node every = yaml::scalar_node(text.substr(colon + 1), span(colon + 1, text.size()));
  const auto stride = read_integer(reader, every, "the number of steps", {.min = 1});
  if (!stride) return {};
  hook.plan.steps = {{0, Hook::kForever, *stride}};
  return hook;
}

namespace {

using plan::MetricType;

/// Returns the layer that makes the pairs. Perplexity has a layer of its own, which makes no pairs.
std::string_view layer_of(MetricType type) {
  const bool own = type == MetricType::kTopKAccuracy || type == MetricType::kAuc ||
                   type == MetricType::kPerplexity;
  return own ? plan::enum_name(type) : "class_pairs";
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
    hook.plan.sinks = {sink};
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

  /// Adds the entry. Returns false after an error.
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

/// Returns a hint for a list of types, which is how other tools write metrics.
std::string hint_for_list(const yaml::Node& node) {
  const bool words = node.is_list() && !node.items.empty() && node.items[0].is_scalar();
  if (!words) return kWithoutDashes;
  const std::string& type = node.items[0].scalar;
  return fmt::format("write `metrics: {{{}: {{type: {}, labels: NAME, predictions: NAME}}}}`", type,
                     find_variant(kMetricTypes, type) ? type : "accuracy");
}

/// Returns true if no entry or input has the name of the metric. Otherwise reports an error.
bool is_free(Reader& reader, const Name& name, const Job& job) {
  const auto is_taken = [&](const auto& named) { return named.name.text == name.text; };
  const auto entry = std::ranges::find_if(job.graph.entries, is_taken);
  const auto input = std::ranges::find_if(job.inputs, is_taken);
  if (entry == job.graph.entries.end() && input == job.inputs.end()) return true;
  const bool is_entry = entry != job.graph.entries.end();
  reader
      .error(Diagnosis::kNameTaken, name.span, "metric `{}` has the name of an {}", name.text,
             is_entry ? "entry" : "input")
      .label(is_entry ? entry->name.span : input->name.span, is_entry ? "the entry" : "the input");
  return false;
}

}  // namespace

void read_metrics(Reader& reader, const yaml::Node& node, Job& job) {
  for (const yaml::Entry& field : reader.entries(node, "`metrics`", hint_for_list(node))) {
    const Name name{field.key, field.key_span};
    if (!reader.check_name(name) || !is_free(reader, name, job)) continue;
    const ParsedVariant given(reader, field.value, field.key_span,
                              fmt::format("metric `{}`", name.text), kMetricTypes);
    if (given.variant()) MetricReader(field, given, job).read();
  }
}

}  // namespace flow::job
