// What the memory of a job is for, as people read it.
#include "cli/show/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/shared/reports.h"
#include "cli/show/job_tree.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/memory.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {
namespace {

constexpr size_t kWidth = 40;  // characters of a drawing

/// "conv1 9.8 MiB until 14, ..."
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

/// Where a block lives among the steps of a call: "...=====......"
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
