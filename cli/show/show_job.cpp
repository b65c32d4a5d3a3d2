// A job's entries and totals as aligned columns.
#include "cli/show/show.h"

#include <fmt/format.h>

#include "cli/shared/reports.h"
#include "cli/show/job_tree.h"
#include "runtime/base/array.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"
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
  const std::vector<bool> own_;  // by tensor: each shard has a value of its own
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

}  // namespace flow::cli
