// Writes the text of a job file for given data.
#include "cli/flowc/job_draft.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/environment_text.h"

namespace flow::cli {
namespace {

using Lines = std::vector<std::string>;

/// The names that the jobs use themselves, and those that the language reserves.
constexpr std::array<std::string_view, 32> kTakenNames = {"note",
                                                          "op",
                                                          "in",
                                                          "repeat",
                                                          "placement",
                                                          "variables",
                                                          "yes",
                                                          "no",
                                                          "on",
                                                          "true",
                                                          "false",
                                                          "off",
                                                          "null",
                                                          "defaults",
                                                          "options",
                                                          "trainable",
                                                          "index",
                                                          "variable_dtype",
                                                          "per_shard",
                                                          "new",
                                                          "model",
                                                          "loss",
                                                          "deviation",
                                                          "guess",
                                                          "features",
                                                          "hidden",
                                                          "output",
                                                          "numbers",
                                                          "flags",
                                                          "scaled",
                                                          "mean_absolute_error",
                                                          "prediction"};

bool is_plain(std::string_view text) {
  static constexpr std::array<std::string_view, 12> kWords = {
      "true", "false", "yes", "no", "on", "off", "null", "y", "n", "t", "f", "none"};
  const auto is_safe = [](unsigned char c) {
    return c < 128 && (std::isalnum(c) != 0 || c == '_' || c == '.' || c == '/' || c == '-');
  };
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return !text.empty() && (std::isalpha(static_cast<unsigned char>(text[0])) || text[0] == '_') &&
         std::ranges::all_of(text, is_safe) && std::ranges::count(kWords, lower) == 0;
}

std::string in_braces(const std::vector<std::string>& items) {
  return fmt::format("{{{}}}", join(items, ", "));
}

Lines input_lines(const JobDraft& draft, const std::string& rows, bool with_target) {
  Lines lines;
  const auto add = [&](const DraftInput& input) {
    lines.push_back(fmt::format("      {}: {{shape: [$batch{}], dtype: {}, from: {}.{}}}",
                                input.name, input.row, input.dtype, rows, input.name));
  };
  std::ranges::for_each(draft.inputs, add);
  if (with_target)
    add({draft.target, draft.classes.empty() ? ", 1" : "",
         draft.classes.empty() ? "float32" : "int32"});
  return lines;
}

std::string names_of_inputs(const JobDraft& draft) {
  std::vector<std::string> names;
  for (const DraftInput& input : draft.inputs) names.push_back(input.name);
  return names.size() == 1 ? names[0] : fmt::format("[{}]", join(names, ", "));
}

std::string call_of_model(const JobDraft& draft) {
  return fmt::format("{{op: model, in: {}}}", names_of_inputs(draft));
}

std::string loss_of(const JobDraft& draft) {
  return draft.classes.empty()
             ? fmt::format("{{op: mse, prediction: model, target: {}}}", draft.target)
             : fmt::format(
                   "{{op: sparse_softmax_cross_entropy_with_logits, labels: {}, logits: model}}",
                   draft.target);
}

void add_head(const JobDraft& draft, Lines& lines) {
  const auto quoted = [](std::vector<std::string> words) { return escaped(command_line(words)); };
  lines.push_back(fmt::format("# Predicts {}.", escaped(draft.what)));
  lines.push_back("#");
  const std::string error = draft.classes.empty() ? "mean absolute error" : "accuracy";
  const std::vector<std::pair<std::string, std::string>> commands = {
      {quoted({"flowc", "data", draft.file}), "list what the columns contain, and bad rows"},
      {quoted({"flowrun", "train", draft.file, "-o", "out/train"}),
       fmt::format("train; print the {} after each epoch", error)},
      {quoted({"flowrun", "eval", draft.file, "--load", "out/train"}),
       fmt::format("print the {} on the validation rows", error)},
      {quoted({"flowrun", "predict", draft.file, "--load", "out/train"}),
       "predict the rows of the dataset `new`"}};
  size_t width = 0;
  for (const auto& [command, purpose] : commands) width = std::max(width, command.size());
  for (const auto& [command, purpose] : commands)
    lines.push_back(fmt::format("#   {:<{}}   {}", command, width, purpose));
  if (!draft.notes.empty()) lines.push_back("#");
  for (const std::string& note : draft.notes) lines.push_back("# " + escaped(note));
  lines.insert(lines.end(), {"flow: 1", "seed: 1"});
  std::vector<std::string> vars;
  for (const auto& [name, value] : draft.vars) vars.push_back(name + ": " + value);
  lines.push_back("vars: " + in_braces(vars));
}

void add_network(const JobDraft& draft, Lines& lines) {
  std::vector<std::string> names;
  for (const DraftInput& input : draft.inputs) names.push_back(input.name);
  lines.insert(lines.end(), {"", "networks:", "  model:"});
  lines.push_back(fmt::format("    inputs: [{}]", join(names, ", ")));
  lines.push_back("    graph:");
  lines.insert(lines.end(), draft.graph_lines.begin(), draft.graph_lines.end());
  lines.push_back(fmt::format("      output: {{op: dense, units: {}}}",
                              std::max<size_t>(draft.classes.size(), 1)));
}

void add_train(const JobDraft& draft, Lines& lines) {
  lines.insert(lines.end(), {"  train:", "    type: train", "    inputs:"});
  std::ranges::move(input_lines(draft, draft.dataset, true), std::back_inserter(lines));
  lines.push_back("    graph:");
  lines.push_back("      model: " + call_of_model(draft));
  lines.push_back("      loss: " + loss_of(draft));
  lines.push_back("    optimizer: {type: adam, learning_rate: $lr, minimize: loss}");
  lines.push_back(
      "    returns: {value: loss, to: {type: print, reduce: mean, over: epoch, format: \"%.4f\"}}");
  lines.push_back(
      "    run: {epochs: $epochs, shuffle: true, also: [{job: eval, every: {epochs: 1}}]}");
}

void add_eval(const JobDraft& draft, Lines& lines) {
  lines.insert(lines.end(), {"", "  eval:", "    type: predict", "    inputs:"});
  std::ranges::move(input_lines(draft, draft.dataset + "/validation", true),
                    std::back_inserter(lines));
  lines.push_back("    graph:");
  lines.push_back("      model: " + call_of_model(draft));
  if (!draft.classes.empty()) {
    lines.push_back("    metrics:");
    lines.push_back(
        fmt::format("      accuracy: {{type: accuracy, labels: {}, predictions: "
                    "model, scale: 100, format: \"%.2f\"}}",
                    draft.target));
    return;
  }
  lines.push_back(fmt::format("      {}: {{op: l1, prediction: model, target: {}}}",
                              draft.is_scaled ? "deviation" : "mean_absolute_error", draft.target));
  if (draft.is_scaled)
    lines.push_back("      mean_absolute_error: {op: multiply, a: deviation, b: $std}");
  lines.push_back(
      "    returns: {value: mean_absolute_error, to: {type: print, reduce: mean, over: run}}");
}

/// Returns "0 = cat, 1 = dog, and 8 more".
std::string classes_text(const std::vector<std::string>& classes) {
  constexpr size_t kShown = 10;
  std::vector<std::string> shown;
  for (size_t id = 0; id < std::min(classes.size(), kShown); ++id)
    shown.push_back(fmt::format("{} = {}", id, escaped(shortened(classes[id]))));
  if (classes.size() > kShown) shown.push_back(fmt::format("and {} more", classes.size() - kShown));
  return join(shown, ", ");
}

void add_predict(const JobDraft& draft, Lines& lines) {
  lines.push_back("");
  if (!draft.classes.empty()) lines.push_back("  # Classes: " + classes_text(draft.classes));
  lines.insert(lines.end(), {"  predict:", "    type: predict", "    inputs:"});
  std::ranges::move(input_lines(draft, "new", false), std::back_inserter(lines));
  lines.push_back("    graph:");
  lines.push_back("      model: " + call_of_model(draft));
  std::string result = "model";
  if (!draft.classes.empty()) {
    lines.push_back("      guess: {op: argmax, in: model}");
    result = "guess";
  } else if (draft.is_scaled) {
    lines.push_back("      scaled: {op: multiply, a: model, b: $std}");
    lines.push_back("      prediction: {op: add, a: scaled, b: $mean}");
    result = "prediction";
  }
  lines.push_back(
      fmt::format("    returns: {{value: {}}}   # DIR/returns/{}/value.npy", result, result));
}

}  // namespace

std::string yaml_text(std::string_view text) {
  const std::string doubled = plan::with_doubled_dollars(std::string(text));
  return is_plain(text) ? std::string(text) : plan::json_string(doubled);
}

std::string yaml_list(std::string_view key, const std::vector<std::string>& items, size_t indent) {
  constexpr size_t kColumns = 96;
  std::string list = fmt::format("{}: [", key);
  size_t at = indent + list.size();
  for (size_t i = 0; i < items.size(); ++i) {
    const std::string item = items[i] + (i + 1 < items.size() ? "," : "]");
    if (i > 0 && at + 1 + item.size() > kColumns) {
      list += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (i > 0) {
      list += ' ';
      ++at;
    }
    list += item;
    at += item.size();
  }
  return list;
}

std::string draft_name(std::string_view text, std::set<std::string>& taken) {
  std::string name;
  for (const char c : text) {
    const bool fits = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
    if (fits || (!name.empty() && name.back() != '_')) name += fits ? c : '_';
  }
  while (name.ends_with('_')) name.pop_back();
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name = "column_" + name;
  const auto is_taken = [&](const std::string& one) {
    return std::ranges::count(kTakenNames, one) > 0 || taken.contains(one);
  };
  std::string unique = name;
  for (int number = 2; is_taken(unique); ++number) unique = fmt::format("{}_{}", name, number);
  taken.insert(unique);
  return unique;
}

std::string text_of(const JobDraft& draft) {
  Lines lines;
  add_head(draft, lines);
  lines.insert(lines.end(), {"", "data:"});
  lines.insert(lines.end(), draft.data_lines.begin(), draft.data_lines.end());
  add_network(draft, lines);
  lines.insert(lines.end(), {"", "jobs:"});
  add_train(draft, lines);
  add_eval(draft, lines);
  add_predict(draft, lines);
  return join(lines, "\n") + "\n";
}

}  // namespace flow::cli
