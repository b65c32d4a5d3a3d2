// The steps of a plan, and the commands that its runs start, as aligned columns.
#include "cli/show/show.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <set>
#include <vector>

#include "cli/shared/table.h"
#include "cli/show/job_totals.h"
#include "cli/show/plan_text.h"
#include "ops/core/spec.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/io/commands.h"
#include "runtime/plan/json/fields.h"
#include "runtime/plan/model/named_values.h"
#include "runtime/plan/model/shards.h"

namespace flow::cli {
namespace {

/// "every 10 steps, when max > 1e3"
std::string fires_text(const plan::Hook& hook) {
  std::vector<std::string> texts;
  for (const plan::StepRange& range : hook.steps) {
    const bool endless = range.end == std::numeric_limits<int64_t>::max();
    if (endless && range.first == 0)
      texts.push_back(range.stride == 1 ? "every step"
                                        : fmt::format("every {} steps", range.stride));
    else if (range.end == range.first + 1)
      texts.push_back(fmt::format("step {}", range.first));
    else
      texts.push_back(fmt::format("steps {}..{}/{}", range.first,
                                  endless ? "" : std::to_string(range.end), range.stride));
  }
  if (hook.when) texts.push_back("when " + escaped(*hook.when));
  if (hook.stops) texts.push_back("then stop");
  return join(texts, ", ");
}

/// "stream, npy, ack, 30 s"
std::string manner_text(const plan::CommandSink& command) {
  std::string text =
      command.mode == plan::CommandSink::Mode::kStream ? "one process" : "a process an event";
  if (command.format == plan::CommandSink::Format::kText) text += ", text";
  if (command.ack) text += ", ack";
  if (command.on_error == plan::CommandSink::OnError::kWarn) text += ", may fail";
  if (command.timeout) text += fmt::format(", {} s", shortest(*command.timeout));
  return text;
}

void add_commands(Table& table, const std::string& whose, const std::string& when,
                  const std::vector<plan::Sink>& sinks, const std::string& where) {
  for (const plan::Sink& sink : sinks) {
    const auto* command = std::get_if<plan::CommandSink>(&sink);
    if (!command) continue;
    std::string text = command->shell ? "sh: " : "";
    for (const auto& [name, value] : command->env) text += fmt::format("{}={} ", name, value);
    table.row({whose, when, manner_text(*command), text + io::command_text(*command), where});
  }
}

Table steps_table(const plan::Job& job) {
  Table table;
  const bool two_devices = plan::has_two_devices(job);
  const std::vector<bool> own = plan::own_of_shards(job);
  const auto row = [&](std::vector<std::string> cells, std::string_view device) {
    if (two_devices) cells.insert(cells.begin() + 1, std::string(device));
    table.row(std::move(cells));
  };
  row({"#", "step", "op", "result", "fused", "where"}, "device");
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    std::vector<std::string> epilogue;
    for (const plan::EpilogueOp& fused : step.epilogue) epilogue.push_back(fused.op.name());
    std::string result;
    if (!step.outputs.empty() && step.outputs[0].valid()) {
      const plan::Tensor& made = job[step.outputs[0]];
      result = type_of(made);
      if (own[step.outputs[0].index()]) result += ", one a shard";
      if (made.combine) result += fmt::format(", {} of shards", plan::enum_name(*made.combine));
    }
    const bool once = job.sharding && i >= job.sharding->steps.index();
    row({fmt::format("{}{}{}", i, once ? " once" : "", step.probe ? " tap" : ""), step.name,
         step.op.name(), result, join(epilogue, " "), step.where},
        plan::name_of(job.device_of(step)));
  }
  return table;
}

Table outputs_table(const plan::Job& job) {
  Table table;
  if (job.returns)
    table.row(
        {"return", job.returns->type, sinks_text(job.returns->sinks), "", job.returns->where});
  for (const plan::Hook& hook : job.hooks)
    table.row({hook.kind == plan::Hook::Kind::kWatch ? "watch" : "watch_diff", hook.name,
               sinks_text(hook.sinks), fires_text(hook), hook.where});
  return table;
}

/// What the learning rate is multiplied by for variables, where that is not 1.
std::map<plan::TensorId, double> rate_scales_of(const plan::Job& job) {
  std::map<plan::TensorId, double> scales;
  const auto add = [&scales](plan::TensorId variable, const plan::Attributes& attributes) {
    if (const double scale = attributes.get<double>("rate_scale"); scale != 1)
      scales.emplace(variable, scale);
  };
  for (const plan::Step& step : job.steps) {
    if (step.attributes.has("rate_scale")) add(step.inputs[1], step.attributes);
    for (const plan::EpilogueOp& fused : step.epilogue)
      if (fused.op->epilogue == ops::Epilogue::kUpdate) add(fused.operands[0], fused.attributes);
  }
  return scales;
}

Table variables_table(const plan::Job& job) {
  const std::map<plan::TensorId, double> scales = rate_scales_of(job);
  const std::set<plan::TensorId> updated = updated_variables(job);
  Table table;
  for (const plan::Variable& variable : job.variables) {
    const plan::Tensor& tensor = job[variable.tensor];
    std::vector<std::string> remarks;
    if (variable.slot) remarks.emplace_back("slot");
    const bool left_out = job.train && !updated.contains(variable.tensor);
    if (!variable.slot && (!variable.trainable || left_out)) remarks.emplace_back("not trained");
    if (const auto scale = scales.find(variable.tensor); scale != scales.end())
      remarks.push_back("learning rate times " + shortest(scale->second));
    if (tensor.device) remarks.push_back(fmt::format("on {}", name_of(*tensor.device)));
    table.row({tensor.name, type_of(tensor),
               plan::text_of(plan::named_values(variable.initializer)), join(remarks, ", ")});
  }
  return table;
}

Table inputs_table(const plan::Job& job) {
  Table table;
  for (const plan::Input& input : job.inputs)
    table.row({job[input.tensor].name, type_of(job, job[input.tensor]), source_text(input.source)});
  return table;
}

}  // namespace

std::string show_steps(const plan::Job& job) {
  std::string text = fmt::format("job {}: {}; {} a call\n", escaped(job.name), job_text(job),
                                 counted(job.steps.size(), "step"));
  const auto section = [&text](std::string_view title, const Table& table) {
    if (!table.empty()) text += fmt::format("\n{}\n{}", title, table.str());
  };
  section("inputs", inputs_table(job));
  section("variables", variables_table(job));
  section("steps", steps_table(job));
  section("outputs", outputs_table(job));
  return text;
}

std::string show_commands(const plan::Job& job) {
  Table table;
  for (const plan::Hook& hook : job.hooks) {
    const bool value = hook.kind == plan::Hook::Kind::kWatch;
    add_commands(table, (value ? "watch " : "watch_diff ") + hook.name, fires_text(hook),
                 hook.sinks, hook.where);
  }
  if (job.returns)
    add_commands(table, "return", "every step", job.returns->sinks, job.returns->where);
  return fmt::format("job {}: {}\n{}", escaped(job.name),
                     table.empty() ? "no commands" : "its commands run in the job file's directory",
                     table.str());
}

}  // namespace flow::cli
