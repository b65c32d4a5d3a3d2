// A plan as people read it.
#include "cli/show_plan.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <vector>

#include "cli/table.h"
#include "runtime/base/text.h"
#include "runtime/io/commands.h"
#include "runtime/plan/cost.h"

namespace flow::cli {

std::string type_of(const plan::Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype), tensor.shape.str());
}

namespace {

std::string values_text(const std::map<std::string, double>& values) {
  std::string text;
  for (const auto& [name, value] : values) text += fmt::format(" {}={}", name, shortest(value));
  return text;
}

std::string source_text(const plan::InputSource& source) {
  if (const auto* column = std::get_if<plan::FromDataset>(&source))
    return column->dataset + "." + column->column;
  if (const auto* file = std::get_if<plan::FromNpy>(&source)) return file->path;
  if (const auto* made = std::get_if<plan::FromGenerator>(&source))
    return made->type + values_text(made->values);
  return "--input";
}

std::string sink_text(const plan::Sink& sink) {
  if (const auto* command = std::get_if<plan::CommandSink>(&sink))
    return "command " + io::command_text(*command);
  if (const auto* npy = std::get_if<plan::NpySink>(&sink))
    return npy->per_step ? "npy, a file a step" : "npy";
  if (const auto* print = std::get_if<plan::PrintSink>(&sink)) {
    constexpr std::array<std::string_view, 6> kReduce = {"",     " mean", " sum",
                                                         " min", " max",  " norm"};
    return fmt::format("print{}{}", kReduce[static_cast<size_t>(print->reduce)],
                       print->every > 1 ? fmt::format(" every {}", print->every) : "");
  }
  return "none";
}

std::string sinks_text(const std::vector<plan::Sink>& sinks) {
  std::vector<std::string> texts;
  texts.reserve(sinks.size());
  for (const plan::Sink& sink : sinks) texts.push_back(sink_text(sink));
  return join(texts, ", ");
}

std::string fires_text(const std::vector<plan::StepRange>& steps) {
  std::vector<std::string> texts;
  for (const plan::StepRange& range : steps) {
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
  const auto row = [&](std::vector<std::string> cells, std::string_view device) {
    if (two_devices) cells.insert(cells.begin() + 1, std::string(device));
    table.row(std::move(cells));
  };
  row({"#", "step", "op", "result", "fused", "where"}, "device");
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const plan::Step& step = job.steps[i];
    std::vector<std::string> posts;
    for (const plan::Post& post : step.posts) posts.push_back(post.op);
    std::string result;
    if (!step.outputs.empty() && step.outputs[0].valid()) result = type_of(job[step.outputs[0]]);
    row({fmt::format("{}{}", i, step.tap ? " tap" : ""), step.name, step.op, result,
         join(posts, " "), step.where},
        plan::name_of(job.device_of(step)));
  }
  return table;
}

/// What hooks read that no step makes by itself: how much longer a call takes in which they fire.
Table taps_table(const plan::Job& job) {
  Table table;
  const double call = plan::estimate_call_seconds(job);
  for (const plan::Step& step : job.steps)
    if (step.tap)
      table.row({step.name,
                 fmt::format("{} of a call, where a hook that needs it fires",
                             call > 0 ? fmt::format("about {:.2g} %",
                                                    100 * plan::estimate_seconds(job, step) / call)
                                      : "all")});
  return table;
}

Table outputs_table(const plan::Job& job) {
  Table table;
  if (job.returns)
    table.row(
        {"return", job.returns->type, sinks_text(job.returns->sinks), "", job.returns->where});
  for (const plan::Hook& hook : job.hooks)
    table.row({hook.kind == plan::Hook::Kind::kWatch ? "watch" : "watch_diff", hook.name,
               sinks_text(hook.sinks), fires_text(hook.steps), hook.where});
  return table;
}

/// What the learning rate is multiplied by for that variable; 1 where nothing trains it.
double rate_scale_of(const plan::Job& job, plan::TensorId variable) {
  const auto scale_in = [](const plan::Attributes& attributes) {
    return attributes.get<double>("rate_scale");
  };
  for (const plan::Step& step : job.steps) {
    if (step.attributes.has("rate_scale") && step.inputs[1] == variable)
      return scale_in(step.attributes);
    for (const plan::Post& post : step.posts)
      if (post.op == "sgd_update" && post.operands[0] == variable) return scale_in(post.attributes);
  }
  return 1;
}

/// Does a call change it?
bool is_updated(const plan::Job& job, plan::TensorId variable) {
  return std::ranges::any_of(job.tensors, [&](const plan::Tensor& tensor) {
    return tensor.role == plan::Role::kResult && tensor.alias == variable;
  });
}

/// "gpu", or where a part of it is placed apart, "gpu and cpu"
std::string devices_text(const plan::Job& job) {
  if (!plan::has_two_devices(job)) return std::string(plan::name_of(job.device));
  return fmt::format("{} and {}", plan::name_of(job.device), plan::name_of(other(job.device)));
}

/// What may change from run to run.
std::string determinism_text(const plan::Job& job) {
  if (job.deterministic) return "";
  std::string names;
  for (const plan::Step& step : job.steps)
    if (step.op.starts_with("convolution")) names += (names.empty() ? "" : ", ") + step.name;
  if (names.empty()) return "\ndeterminism is off, and changes nothing: there is no convolution\n";
  return fmt::format(
      "\ndeterminism is off: on a GPU these may add in another order in each run: {}\n", names);
}

}  // namespace

std::string show_job(const plan::Job& job) {
  int64_t parameters = 0;
  Table variables, inputs;
  for (const plan::Variable& variable : job.variables) {
    const plan::Tensor& tensor = job[variable.tensor];
    if (!variable.slot) parameters += tensor.shape.elements();
    std::vector<std::string> remarks;
    if (variable.slot) remarks.push_back("slot");
    const bool left_out = job.train && !is_updated(job, variable.tensor);
    if (!variable.slot && (!variable.trainable || left_out)) remarks.push_back("not trained");
    if (const double scale = rate_scale_of(job, variable.tensor); scale != 1)
      remarks.push_back("learning rate times " + shortest(scale));
    if (tensor.device) remarks.push_back(fmt::format("on {}", name_of(*tensor.device)));
    variables.row({tensor.name, type_of(tensor),
                   variable.initializer.type + values_text(variable.initializer.values),
                   join(remarks, ", ")});
  }
  for (const plan::Input& input : job.inputs)
    inputs.row({job[input.tensor].name, type_of(job[input.tensor]), source_text(input.source)});

  std::string text =
      fmt::format("job {}: {}, {}, {}, seed {}; {} a call, {} parameters\n", job.name,
                  job.train ? "train" : "predict", devices_text(job), job.precision, job.seed,
                  counted(job.steps.size(), "step"), parameters);
  const auto section = [&text](std::string_view title, const Table& table) {
    if (!table.empty()) text += fmt::format("\n{}\n{}", title, table.str());
  };
  section("inputs", inputs);
  section("variables", variables);
  section("steps", steps_table(job));
  section("taps", taps_table(job));
  section("outputs", outputs_table(job));
  if (job.optimizer)
    text += fmt::format("\noptimizer {}, learning rate {}, minimizes {}\n", job.optimizer->type,
                        job.optimizer->learning_rate.type, job.optimizer->loss_name);
  return text + determinism_text(job);
}

std::string show_commands(const plan::Job& job) {
  Table table;
  for (const plan::Hook& hook : job.hooks) {
    const bool value = hook.kind == plan::Hook::Kind::kWatch;
    add_commands(table, (value ? "watch " : "watch_diff ") + hook.name, fires_text(hook.steps),
                 hook.sinks, hook.where);
  }
  if (job.returns)
    add_commands(table, "return", "every step", job.returns->sinks, job.returns->where);
  return fmt::format("job {}: {}\n{}", job.name,
                     table.empty() ? "no commands" : "its commands run in the job file's directory",
                     table.str());
}

}  // namespace flow::cli
