// Shows the steps of a plan, the commands that its runs start, and the data that ranks share, as
// aligned columns.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "cli/shared/reports.h"
#include "cli/show/job_tree.h"
#include "cli/show/show.h"
#include "ops/core/spec.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/memory.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/ranks/buckets.h"
#include "runtime/exec/ranks/division.h"
#include "runtime/exec/ranks/identity.h"
#include "runtime/exec/run/executor.h"
#include "runtime/io/commands.h"
#include "runtime/plan/json/fields.h"
#include "runtime/plan/model/named_values.h"
#include "runtime/plan/model/shards.h"

namespace flow::cli {
namespace {

/// Returns a text such as "every 10 steps, when max > 1e3".
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

/// Describes how a command runs: "one process, text, ack, 30 s".
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

/// Returns the factors of the learning rate for variables whose factor is not 1.
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

using plan::TensorId;

/// Computes how a run divides its work among ranks. A device may divide fewer updates.
class Sharing {
 public:
  Sharing(const plan::Job& job, int ranks)
      : job_(job),
        ranks_(ranks),
        owners_(exec::share_memory(job, [](TensorId, TensorId) { return true; })),
        combined_(exec::list_combined(job, owners_)),
        updates_(exec::find_divided_updates(job, owners_, deliverables())),
        buckets_(exec::make_buckets(describe(), ranks)) {}

  std::string totals() const {
    size_t all = 0, divided = 0;
    for (const plan::Variable& variable : job_.variables)
      if (variable.slot) all += exec::bytes_of(job_[variable.tensor]);
    std::vector<size_t> slices(static_cast<size_t>(ranks_));
    for (const exec::Bucket& bucket : buckets_)
      if (bucket.divided) add_slots(bucket, slices, divided);
    return fmt::format(
        "  sent by a rank  {} a step, on average\n  slots           {}, on a rank at most {}\n",
        human_bytes(exec::bytes_sent(buckets_, ranks_)), human_bytes(all),
        human_bytes(all - divided + *std::ranges::max_element(slices)));
  }

  Table table() const {
    Table table;
    table.row({"combined tensor", "type", "by", "bucket", "added up by", "then sent"});
    for (size_t i = 0; i < buckets_.size(); ++i)
      for (const size_t tensor : buckets_[i].tensors) add_row(table, i, tensor);
    return table;
  }

 private:
  std::vector<TensorId> deliverables() const {
    const plan::UnshardedJob whole(job_);
    return exec::list_deliverables(job_, exec::list_deliveries(*whole, exec::StepIndex()));
  }

  const exec::DividedUpdate* update_of(size_t tensor) const {
    const TensorId owner = owners_[combined_[tensor].tensor.index()];
    const auto found = std::ranges::find_if(updates_, [&](const exec::DividedUpdate& update) {
      return owners_[update.gradient.index()] == owner;
    });
    return found == updates_.end() ? nullptr : &*found;
  }

  std::vector<exec::CombinedTensor> describe() const {
    std::vector<exec::CombinedTensor> tensors;
    for (size_t i = 0; i < combined_.size(); ++i) {
      const plan::Tensor& tensor = job_[combined_[i].tensor];
      tensors.push_back({tensor.shape.elements(), exec::total_size(tensor), size_of(tensor.dtype),
                         job_.steps[combined_[i].step].probe, update_of(i) != nullptr});
    }
    return tensors;
  }

  void add_slots(const exec::Bucket& bucket, std::vector<size_t>& slices, size_t& divided) const {
    for (size_t rank = 0; rank < slices.size(); ++rank)
      for (const exec::Slice& slice : bucket.slices[rank]) {
        const size_t bytes = update_of(slice.tensor)->slots.size() * sizeof(float) *
                             static_cast<size_t>(slice.end - slice.first);
        slices[rank] += bytes;
        divided += bytes;
      }
  }

  /// Returns the ranks that add up a tensor: "rank 2", "ranks 0..3".
  std::string holders(const exec::Bucket& bucket, size_t tensor) const {
    if (bucket.small) return "all ranks";
    std::vector<size_t> found;
    for (size_t rank = 0; rank < bucket.slices.size(); ++rank)
      if (std::ranges::find(bucket.slices[rank], tensor, &exec::Slice::tensor) !=
          bucket.slices[rank].end())
        found.push_back(rank);
    return found.size() == 1 ? fmt::format("rank {}", found[0])
                             : fmt::format("ranks {}..{}", found.front(), found.back());
  }

  void add_row(Table& table, size_t index, size_t tensor) const {
    const exec::Bucket& bucket = buckets_[index];
    const plan::Tensor& made = job_[combined_[tensor].tensor];
    const std::string sent = bucket.small     ? "nothing"
                             : bucket.divided ? job_[update_of(tensor)->variable].name
                                              : "the result";
    table.row({made.name, type_of(made), std::string(plan::enum_name(*made.combine)),
               std::to_string(index), holders(bucket, tensor), sent});
  }

  const plan::Job& job_;
  const int ranks_;
  const std::vector<TensorId> owners_;
  const std::vector<exec::Combined> combined_;
  const std::vector<exec::DividedUpdate> updates_;
  const std::vector<exec::Bucket> buckets_;
};

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

std::string show_ranks(const plan::Job& job, int ranks) {
  exec::require_ranks_divide(ranks, job);
  const int64_t shards = plan::shards_of(job);
  const Sharing sharing(job, ranks);
  return fmt::format("job {} on {}: {} of {} on each\n{}\n{}", escaped(job.name),
                     counted(static_cast<uint64_t>(ranks), "rank"), shards / ranks,
                     counted(static_cast<uint64_t>(shards), "shard"), sharing.totals(),
                     sharing.table().str());
}

}  // namespace flow::cli
