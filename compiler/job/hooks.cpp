// `hooks:` and `--watch`: what is watched, in which steps, and where it goes.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/sections.h"
#include "compiler/job/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

/// "7", "5..8" or "100..1000/100".
std::optional<plan::StepRange> parse_steps(std::string_view text) {
  plan::StepRange range;
  if (const auto step = parse_integer(text); step && *step >= 0 && *step < INT64_MAX)
    return plan::StepRange{*step, *step + 1, 1};
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const auto stride = parse_integer(text.substr(slash + 1));
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
  const auto add = [&](const yaml::Node& item) {
    if (!reader.expect(item, yaml::Kind::kScalar, "a step")) return;
    if (const auto range = parse_steps(item.scalar)) {
      ranges.push_back(*range);
      return;
    }
    reader.error(Diagnosis::kStepList, item, fmt::format("`{}` names no steps", item.scalar))
        .with_hint("write a step, `5..8` for 5, 6 and 7, or `100..1000/100` for every 100th");
  };
  if (node.is_list())
    for (const yaml::Node& item : node.items) add(item);
  else
    add(node);
  if (node.is_list() && node.items.empty())
    reader.error(Diagnosis::kStepList, node, "`steps` is empty, the hook would never fire");
  return ranges;
}

void read_when(const Fields& fields, Hook& hook) {
  Reader& reader = fields.reader();
  const yaml::Node *every = fields.find("every"), *steps = fields.find("steps");
  if (every && steps)
    reader
        .error(Diagnosis::kStepList, fields.key_span("steps"),
               "a hook has `every` or `steps`, not both")
        .label(fields.key_span("every"), "the other one");
  if (every)
    if (const auto stride = read_integer(reader, *every, "`every`", {.min = 1}))
      hook.steps = {{0, Hook::kForever, *stride}};
  if (steps) hook.steps = read_steps(reader, *steps);
}

/// `as:` names a folder of the run directory.
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
                          fmt::format("`as` is `{}`, which is not a name", *text));
}

std::optional<Hook> read_hook(Reader& reader, const yaml::Node& node) {
  if (!reader.expect(node, yaml::Kind::kMapping, "a hook")) return {};
  const bool diff = node.find("watch_diff") != nullptr;
  std::vector<std::string> keys{"watch", "watch_diff", "every", "steps", "as", "check", "to"};
  if (diff) keys.emplace_back("of");
  const Span start{node.span.source, node.span.begin, node.span.begin + 1};
  const Fields fields(reader, node, start, "a hook", keys);
  if (diff && node.find("watch"))
    reader.error(Diagnosis::kUnknownKey, fields.key_span("watch_diff"),
                 "a hook has `watch` or `watch_diff`, not both");
  Hook hook;
  hook.kind = diff ? plan::Hook::Kind::kWatchDiff : plan::Hook::Kind::kWatch;
  const yaml::Node* target = diff ? fields.find("watch_diff") : fields.find("watch");
  if (!target) {
    reader.error(Diagnosis::kMissingKey, start, "a hook needs `watch` or `watch_diff`");
    return {};
  }
  hook.span = fields.key_span(diff ? "watch_diff" : "watch");
  const auto pattern = read_text(reader, *target, diff ? "`watch_diff`" : "`watch`");
  read_when(fields, hook);
  read_output(fields, hook);
  if (const yaml::Node* of = fields.find("of"); diff && of)
    hook.mean = read_choice(reader, *of, "`of`", {"sum", "mean"}) == "mean";
  if (const yaml::Node* check = fields.find("check"))
    hook.check_finite = read_choice(reader, *check, "`check`", {"finite"}).has_value();
  if (const yaml::Node* to = fields.find("to"))
    hook.sinks = read_sinks(reader, *to);
  else
    hook.sinks = {plan::NpySink{}};
  if (!pattern) return {};
  hook.pattern = {*pattern, target->span};
  return hook;
}

}  // namespace

std::vector<Hook> read_hooks(Reader& reader, const yaml::Node& node) {
  std::vector<Hook> hooks;
  if (!reader.expect(node, yaml::Kind::kList, "`hooks`")) return hooks;
  for (const yaml::Node& item : node.items)
    if (auto hook = read_hook(reader, item)) hooks.push_back(std::move(*hook));
  return hooks;
}

std::optional<Hook> read_hook_option(Reader& reader, std::string_view option,
                                     const std::string& text, plan::Hook::Kind kind) {
  const int32_t source = reader.sources.add(fmt::format("{} {}", option, text), text);
  const auto span = [source](size_t begin, size_t end) {
    return Span{source, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
  };
  const size_t colon = std::min(text.rfind(':'), text.size());
  Hook hook;
  hook.kind = kind;
  hook.pattern = {text.substr(0, colon), span(0, colon)};
  hook.span = span(0, text.size());
  hook.sinks = {plan::NpySink{}};
  if (hook.pattern.text.empty()) {
    reader.error(Diagnosis::kBadOverride, hook.span, fmt::format("`{}` needs a name", option));
    return {};
  }
  if (colon == text.size()) return hook;
  yaml::Node every;
  every.scalar = text.substr(colon + 1);
  every.span = span(colon + 1, text.size());
  const auto stride = read_integer(reader, every, "the number of steps", {.min = 1});
  if (!stride) return {};
  hook.steps = {{0, Hook::kForever, *stride}};
  return hook;
}

}  // namespace flow::job
