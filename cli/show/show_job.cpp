// Shows the entries and totals of a job as aligned columns, and the purposes of its memory.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/shared/reports.h"
#include "cli/show/job_tree.h"
#include "cli/show/show.h"
#include "runtime/base/array.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/memory.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/precision.h"
#include "runtime/plan/model/shards.h"

namespace flow::cli {
namespace {

class Listing {
 public:
  Listing(const plan::Job& job, const JobTree& tree, const std::string& source)
      : job_(job),
        tree_(tree),
        source_(source),
        two_devices_(plan::has_two_devices(job)),
        own_(plan::own_of_shards(job)) {
    row({"entry", "op", "output", "params", "FLOPs", "bytes", "line"}, "device");
    for (const size_t numbers : {kOutput + 1, kOutput + 2, kOutput + 3, two_devices_ ? 7UL : 6UL})
      table_.align_right(numbers);
  }

  void add(const Folded& line, size_t depth) {
    const Entry& entry = tree_.entries[line.entry];
    std::string name(2 * depth, ' '), op = entry.op, output, bytes;
    name += line.name;
    if (line.copies > 1) name += fmt::format(" x {}", line.copies);
    if (!line.shown_at.empty()) op += (op.empty() ? "as " : ", as ") + line.shown_at;
    if (entry.output.valid()) {
      const plan::Tensor& tensor = job_[entry.output];
      const Shape shape = plan::whole_shape(job_, tensor);
      output = tensor.dtype == plan::compute_dtype_of(job_.precision) ? shape.str()
                                                                      : type_of(job_, tensor);
      const int64_t copies = own_[entry.output.index()] ? plan::shards_of(job_) : 1;
      if (copies > 1) output = fmt::format("{} x {}", copies, output);
      bytes = human_bytes(bytes_of(shape, tensor.dtype) * static_cast<uint64_t>(copies));
    }
    row({name, op, output, line.parameters ? human_count(static_cast<double>(line.parameters)) : "",
         line.flops > 0 ? human_count(line.flops) : "", bytes, line_of(entry.where, source_)},
        entry.network ? "" : name_of(entry.device));
    for (const Folded& inside : line.inside) add(inside, depth + 1);
  }

  std::string str(int columns) {
    const size_t line = two_devices_ ? 7 : 6;
    const std::vector<size_t> cut = {1, 0, kOutput, line};
    table_.fit(columns, cut, 15);
    table_.fit(columns, cut, 10, {line, kOutput + 3, kOutput + 2, kOutput + 1, 1});
    return table_.str();
  }

 private:
  static constexpr size_t kOutput = 2;

  void row(std::vector<std::string> cells, std::string_view device) {
    if (two_devices_) cells.insert(cells.end() - 1, std::string(device));
    table_.row(std::move(cells));
  }

  const plan::Job& job_;
  const JobTree& tree_;
  const std::string& source_;
  const bool two_devices_;
  const std::vector<bool> own_;  // indexed by tensor: true if each shard has a separate value
  Table table_;
};

std::string parameters_text(const JobTotals& totals, bool train) {
  const uint64_t sum = totals.trained + totals.frozen;
  std::string text = grouped_digits(sum);
  if (train && sum > 0)
    text += totals.frozen == 0 ? ", all trained"
            : totals.trained == 0
                ? ", none trained"
                : fmt::format(": {} trained, {} frozen", grouped_digits(totals.trained),
                              grouped_digits(totals.frozen));
  if (totals.statistics > 0)
    text += fmt::format(", and {} moving statistics", grouped_digits(totals.statistics));
  return text;
}

std::string metrics_text(const plan::Job& job) {
  std::vector<std::string> names;
  for (const plan::Hook& hook : job.hooks)
    if (prints_metric(hook)) names.push_back(hook.name);
  return join(names, ", ");
}

std::string hooks_text(const plan::Job& job) {
  uint64_t values = 0, gradients = 0;
  for (const plan::Hook& hook : job.hooks)
    if (!prints_metric(hook)) ++(hook.kind == plan::Hook::Kind::kWatchDiff ? gradients : values);
  std::vector<std::string> texts;
  if (values) texts.push_back(counted(values, "watched tensor"));
  if (gradients) texts.push_back(counted(gradients, "watched gradient"));
  return join(texts, ", ");
}

std::string totals_text(const plan::Job& job, int columns) {
  const JobTotals totals = totals_of(job);
  Table table;
  const auto row = [&table](std::string what, std::string text) {
    if (!text.empty()) table.row({std::move(what), std::move(text)});
  };
  row("parameters", parameters_text(totals, job.train));
  row("FLOPs a step", job.train
                          ? fmt::format("{}: {} forward, {} backward and update",
                                        human_count(totals.forward + totals.backward),
                                        human_count(totals.forward), human_count(totals.backward))
                          : human_count(totals.forward));
  row("memory", human_bytes(totals.memory) + " at the peak");
  row("checkpoint", human_bytes(totals.checkpoint));
  if (job.optimizer) {
    row("optimizer",
        fmt::format("{}, minimizes {}", job.optimizer->type, job.optimizer->loss_name));
    row("learning rate", schedule_text(job.optimizer->learning_rate));
    if (const auto& follows = job.optimizer->learning_rate.follows)
      row("plateau", "by the " + followed_text(*follows));
  }
  row("shards", shards_text(job));
  row("run", run_text(job.run));
  if (const auto& stopping = job.run.early_stopping)
    row("early stopping",
        fmt::format("by the {}, patience {}", followed_text(stopping->value), stopping->patience));
  if (const auto& best = job.run.checkpoint.keep_best)
    row("best state", "by the " + followed_text(*best));
  if (job.returns)
    row("returns", fmt::format("{}, to {}", job.returns->type, sinks_text(job.returns->sinks)));
  row("metrics", metrics_text(job));
  row("hooks", hooks_text(job));
  table.fit(std::max(columns, 100), {1}, 16);
  return folded(table.str(), static_cast<size_t>(columns));
}

constexpr size_t kWidth = 40;  // the width of a drawing in characters

/// Returns a text such as "conv1 9.8 MiB until 14, ...".
std::string made_text(const plan::Job& job, const StepMemory& results, size_t step) {
  std::vector<std::string> texts;
  for (const exec::Holding* holding : results.made[step]) {
    const auto& [bytes, first, last] = holding->block;
    texts.push_back(fmt::format("{} {}{}", job[holding->tensor].name, human_bytes(bytes),
                                last > first ? fmt::format(" until {}", last) : ""));
  }
  return join(texts, ", ");
}

Table steps_table(const plan::Job& job, const StepMemory& results) {
  Table table;
  table.align_right(0);
  table.align_right(2);
  table.row({"#", "step", "live", "", "allocates"});
  for (size_t i = 0; i < job.steps.size(); ++i) {
    const double part = static_cast<double>(results.live[i]) / static_cast<double>(results.peak());
    const auto full = static_cast<size_t>(part * static_cast<double>(kWidth));
    table.row({std::to_string(i), job.steps[i].name, human_bytes(results.live[i]),
               std::string(full, i == results.fullest ? '#' : '='), made_text(job, results, i)});
  }
  return table;
}

/// Returns the lifetime of a block among the steps of a call, such as "...=====......".
std::string lifeline(const plan::Block& block, size_t steps) {
  const size_t width = std::min(kWidth, steps);
  const size_t first = block.first * width / steps, last = block.last * width / steps;
  return std::string(first, '.') + std::string(last - first + 1, '=') +
         std::string(width - last - 1, '.');
}

Table holders_table(const plan::Job& job, const StepMemory& results) {
  Table table;
  table.align_right(1);
  for (const auto& [tensor, block] : results.at_peak())
    table.row({job[tensor].name, human_bytes(block.bytes),
               fmt::format("{}..{}", block.first, block.last), lifeline(block, job.steps.size())});
  return table;
}

std::string device_text(const exec::MemoryReport& memory) {
  std::string text =
      fmt::format("  variables {}\n  inputs    {}\n  outputs   {}\n", human_bytes(memory.variables),
                  human_bytes(memory.inputs), human_bytes(memory.outputs));
  if (memory.columns > 0) text += fmt::format("  datasets  {}\n", human_bytes(memory.columns));
  text += fmt::format("  arena     {}{}\n", human_bytes(memory.arena),
                      memory.peak_step.empty() ? "" : ", peak at " + memory.peak_step);
  for (const auto& holder : memory.at_peak)
    text += fmt::format("    {:>10}  {}\n", human_bytes(holder.bytes), holder.name);
  if (memory.workspace_limit)
    text += fmt::format("  workspaces of convolutions limited to {}, which the tensors leave\n",
                        human_bytes(*memory.workspace_limit));
  if (memory.library_steps.empty()) return text;
  Table table;
  table.align_right(1);
  for (const exec::LibraryStep& step : memory.library_steps)
    table.row({"  " + step.step, human_bytes(step.workspace), step.kernel});
  return text + "  kernels of libraries, with their workspaces\n" + table.str();
}

void add_kernels(OrderedJson& line, const exec::MemoryReport& memory) {
  for (const exec::LibraryStep& step : memory.library_steps)
    line["kernels"].push_back(
        OrderedJson{{"step", step.step}, {"kernel", step.kernel}, {"workspace", step.workspace}});
  if (memory.workspace_limit) line["workspace_limit"] = *memory.workspace_limit;
}

OrderedJson bytes_of(const exec::MemoryReport& memory) {
  return {{"total", memory.total()},   {"variables", memory.variables}, {"inputs", memory.inputs},
          {"outputs", memory.outputs}, {"datasets", memory.columns},    {"arena", memory.arena},
          {"pinned", memory.pinned}};
}

}  // namespace

std::string show_job(const plan::Job& job, std::span<const WrittenEntry> written,
                     const std::string& source, bool all, int columns) {
  const JobTree tree = tree_of(job, written);
  Listing listing(job, tree, source);
  for (const Folded& line : fold(tree, job, all).inside) listing.add(line, 0);
  std::string text = fmt::format("job {}: {}\n\n{}\n{}", escaped(job.name), job_text(job),
                                 listing.str(columns), totals_text(job, columns));
  const std::string probes = probes_text(job), determinism = determinism_text(job);
  if (!probes.empty()) text += "\ntaps\n" + probes;
  if (!determinism.empty()) text += "\n" + determinism;
  return text;
}

std::string show_memory(const plan::Job& job) {
  const StepMemory results(job);
  std::string text = fmt::format(
      "job {}: {} at peak, without workspaces and layouts\n  variables {}\n  inputs    {}\n  "
      "results  "
      " {}\n",
      job.name, human_bytes(results.variables + results.inputs + results.peak()),
      human_bytes(results.variables), human_bytes(results.inputs), human_bytes(results.peak()));
  if (results.peak() == 0) return text;
  text += "\nsteps\n" + steps_table(job, results).str();
  text += fmt::format("\nlive at the peak, step {}, {}\n{}", results.fullest,
                      job.steps[results.fullest].name, holders_table(job, results).str());
  return text;
}

std::string memory_text(const exec::JobMemory& job) {
  const exec::MemoryReport& memory = job.memory;
  std::string text = fmt::format("job {}: {} at peak{}\n", job.job, human_bytes(memory.total()),
                                 memory.sent > 0 ? ", on each rank" : "");
  for (const exec::MemoryReport& part : memory.parts)
    text += fmt::format("on {}: {}\n{}", part.device, human_bytes(part.total()), device_text(part));
  if (memory.parts.empty()) text += device_text(memory);
  if (memory.pinned > 0)
    text += fmt::format("  pinned host memory {}\n", human_bytes(memory.pinned));
  if (memory.sent > 0)
    text += fmt::format("  sent to other ranks in a step: {}\n", human_bytes(memory.sent));
  return text;
}

std::string memory_json(const exec::JobMemory& job) {
  OrderedJson line{{"event", "memory"}, {"job", job.job}, {"bytes", bytes_of(job.memory)}};
  if (job.memory.sent > 0) line["bytes_sent_a_step"] = job.memory.sent;
  for (const exec::MemoryReport& part : job.memory.parts) {
    line["devices"][part.device] = bytes_of(part);
    add_kernels(line, part);
  }
  add_kernels(line, job.memory);
  return line.dump() + "\n";
}

}  // namespace flow::cli
