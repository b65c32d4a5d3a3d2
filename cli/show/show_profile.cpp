// Shows the time of a run by thread, by step, and by the entries that the steps were made from.
#include "cli/show/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "cli/shared/reports.h"
#include "cli/show/job_tree.h"
#include "ops/core/spec.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/cost.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/shards.h"

namespace flow::cli {
namespace {

using exec::ProfileReport;
using exec::ProfileRow;

enum Phase : size_t { kForward, kBackward, kUpdate, kPhases };

/// The times and the work of an entry in one step of the run.
struct EntryTimes {
  std::string name, op, line;
  double seconds[kPhases] = {};
  double flops = 0, bytes = 0;
  double at_roof = 0;  // seconds that its steps would take at the roofline

  double total() const { return seconds[kForward] + seconds[kBackward] + seconds[kUpdate]; }
};

bool is_update(std::string_view step) { return step.find(":update") != step.npos; }

/// Returns the phase of a step. Backends split and join steps; the resulting steps are not in the
/// plan, but have similar names.
Phase phase_of(const std::string& name, const plan::Step* step) {
  if (is_update(name) || (step && step->op->for_updates)) return kUpdate;
  const bool backward = step ? plan::is_backward(*step) : name.find(":diff") != name.npos;
  return backward ? kBackward : kForward;
}

class Summary {
 public:
  Summary(const ProfileReport& report, const plan::Job& job, const std::string& source)
      : report_(report), job_(job), tree_(tree_of(job, entries_of_plan(job))) {
    for (const ProfileRow& row : report.steps) timed_.emplace(row.name, &row);
    for (const plan::Step& step : job.steps) steps_.emplace(step.name, &step);
    for (size_t i = 0; i < tree_.entries.size(); ++i) {
      const Entry& entry = tree_.entries[i];
      times_.push_back({entry.path, entry.op, line_of(entry.where, source)});
      if (!entry.network) written_at_[entry.where].push_back(i);
    }
    times_[0].name = "other";
    updates_.name = "updates, launched together";
  }

  std::vector<EntryTimes> run() {
    const bool together = updates_together();
    for (const ProfileRow& row : report_.steps) {
      const auto found = steps_.find(row.name);
      const plan::Step* step = found == steps_.end() ? nullptr : found->second;
      const bool apart = together && is_update(row.name);
      EntryTimes& entry = apart ? updates_ : times_[step ? entry_of(*step) : tree_.find(row.name)];
      entry.seconds[phase_of(row.name, step)] += row.median * calls_of(row);
    }
    for (size_t i = 0; i < job_.steps.size(); ++i)
      if (!job_.steps[i].probe) add_work(job_.steps[i], plan::StepId(i), together);
    times_.push_back(updates_);
    std::erase_if(times_, [](const EntryTimes& entry) { return entry.total() == 0; });
    std::ranges::stable_sort(times_, std::greater<>{}, &EntryTimes::total);
    return std::move(times_);
  }

 private:
  /// Returns the entry to which a step belongs. A gradient is named after its tensor, but the entry
  /// that reads this tensor computes it, and the gradient has the entry's place in the file. The
  /// copies of a repeat share one place. Among them, the entry is the copy whose variable or result
  /// the step reads.
  size_t entry_of(const plan::Step& step) const {
    const size_t named = tree_.find(step.name);
    const auto found = written_at_.find(step.where);
    if (!plan::is_backward(step) || found == written_at_.end()) return named;
    const std::vector<size_t>& copies = found->second;
    const auto is_copy = [&](size_t entry) { return std::ranges::count(copies, entry) > 0; };
    if (copies.size() == 1) return copies[0];
    std::optional<size_t> read;
    plan::visit_operands(step, [&](plan::TensorId id) {
      const size_t entry = tree_.find(job_[id].name);
      if (!read && is_copy(entry)) read = entry;
    });
    return read.value_or(named);
  }

  /// Returns the number of calls in one step of the run.
  double calls_of(const ProfileRow& row) const {
    return static_cast<double>(row.calls) /
           static_cast<double>(std::max<int64_t>(1, report_.calls));
  }

  /// Returns true if the device launches the updates of several variables as one step.
  bool updates_together() const {
    const auto timed = std::ranges::count_if(report_.steps, is_update, &ProfileRow::name);
    const auto planned = std::ranges::count_if(
        job_.steps, [](const plan::Step& step) { return is_update(step.name) && !step.probe; });
    return timed < planned;
  }

  /// Adds the computation and memory traffic of a step, whether the step was timed separately or as
  /// a part of another one.
  void add_work(const plan::Step& step, plan::StepId id, bool together) {
    const auto row = timed_.find(step.name);
    const double runs =
        row != timed_.end() ? calls_of(*row->second) : static_cast<double>(plan::runs_of(job_, id));
    double flops = plan::flops(job_, step);
    for (const plan::EpilogueOp& fused : step.epilogue) flops += plan::flops(job_, step, fused);
    const double bytes = plan::traffic(job_, step);
    EntryTimes& entry = together && is_update(step.name) ? updates_ : times_[entry_of(step)];
    entry.flops += runs * flops;
    entry.bytes += runs * bytes;
    const exec::Roof& roof = report_.roof;
    if (roof.flops > 0 && roof.bytes > 0)
      entry.at_roof += runs * std::max(flops / roof.flops, bytes / roof.bytes);
  }

  const ProfileReport& report_;
  const plan::Job& job_;
  const JobTree tree_;
  std::map<std::string_view, const ProfileRow*> timed_;
  std::map<std::string_view, const plan::Step*> steps_;
  std::map<std::string_view, std::vector<size_t>> written_at_;  // entries by place in the file
  std::vector<EntryTimes> times_;                               // indexed by entry of the tree
  EntryTimes updates_;
};

std::string microseconds(double seconds) {
  return seconds > 0 ? fmt::format("{:.1f}", 1e6 * seconds) : "";
}

std::string rate(double amount, double seconds) {
  return amount > 0 && seconds > 0 ? fmt::format("{:.3g}", 1e-9 * amount / seconds) : "";
}

std::string percent(double share) { return share > 0 ? fmt::format("{:.1f} %", 100 * share) : ""; }

/// The number of the plan's steps in the table. profile.json contains all steps.
constexpr size_t kListedSteps = 20;

double share(double seconds, double of) { return of > 0 ? 100 * seconds / of : 0; }

/// Returns the columns calls, total ms, share and median us.
std::vector<std::string> numbers(const exec::ProfileRow& row, double of) {
  return {std::to_string(row.calls), fmt::format("{:.1f}", 1e3 * row.seconds),
          fmt::format("{:.1f} %", share(row.seconds, of)), fmt::format("{:.1f}", 1e6 * row.median)};
}

/// Returns a table with the given titles, followed by the columns of `numbers`.
Table table_of_numbers(std::vector<std::string> titles) {
  Table table;
  for (const char* title : {"calls", "total ms", "share", "median us"}) {
    table.align_right(titles.size());
    titles.emplace_back(title);
  }
  table.row(std::move(titles));
  return table;
}

void add(Table& table, std::vector<std::string> cells, const exec::ProfileRow& row, double of) {
  for (std::string& number : numbers(row, of)) cells.push_back(std::move(number));
  table.row(std::move(cells));
}

Table threads_table(const exec::ProfileReport& report) {
  Table table = table_of_numbers({"thread", "work"});
  double known = 0;
  for (const exec::ProfileRow& row : report.compute) {
    add(table, {"compute", row.name}, row, report.seconds);
    known += row.seconds;
  }
  const double rest = report.seconds - known;
  table.row({"compute", "other", "", fmt::format("{:.1f}", 1e3 * rest),
             fmt::format("{:.1f} %", share(rest, report.seconds)), ""});
  for (const exec::ProfileRow& row : report.beside)
    add(table, {"background", row.name}, row, report.seconds);
  return table;
}

/// Returns the slowest steps of the plan, and all other work: copies, waiting, exchange.
Table steps_table(const exec::ProfileReport& report) {
  Table table = table_of_numbers({"step", "op", "kernel"});
  exec::ProfileRow others;
  size_t listed = 0, left_out = 0;
  for (const exec::ProfileRow& row : report.steps) {
    if (!row.of_plan || listed++ < kListedSteps) {
      add(table, {row.name, row.op, row.kernel}, row, report.seconds);
      continue;
    }
    ++left_out;
    others.calls += row.calls;
    others.seconds += row.seconds;
  }
  if (left_out > 0)
    table.row({fmt::format("{} more", left_out), "", "", std::to_string(others.calls),
               fmt::format("{:.1f}", 1e3 * others.seconds),
               fmt::format("{:.1f} %", share(others.seconds, report.seconds)), ""});
  return table;
}

}  // namespace

std::string entries_table(const ProfileReport& report, const plan::Job& job,
                          const std::string& source) {
  Table table;
  table.row({"entry", "op", "forward us", "backward us", "update us", "share", "GFLOP/s", "GB/s",
             "of roof", "line"});
  for (const size_t column : {2, 3, 4, 5, 6, 7, 8, 9}) table.align_right(column);
  const std::vector<EntryTimes> entries = Summary(report, job, source).run();
  double sum = 0;
  for (const EntryTimes& entry : entries) sum += entry.total();
  for (const EntryTimes& entry : entries) {
    const double total = entry.total();
    table.row({entry.name, entry.op, microseconds(entry.seconds[kForward]),
               microseconds(entry.seconds[kBackward]), microseconds(entry.seconds[kUpdate]),
               percent(total / sum), rate(entry.flops, total), rate(entry.bytes, total),
               percent(entry.at_roof / total), entry.line});
  }
  std::string text = table.str();
  if (report.roof.flops > 0 && report.roof.bytes > 0)
    text += fmt::format(
        "  roof: {:.3g} GFLOP/s in a large matrix product, {:.3g} GB/s in a sum of large arrays\n",
        1e-9 * report.roof.flops, 1e-9 * report.roof.bytes);
  return text;
}

std::string profile_table(const exec::ProfileReport& report, const plan::Job& job,
                          const std::string& source) {
  const double a_step =
      report.calls > 0 ? 1e3 * report.seconds / static_cast<double>(report.calls) : 0;
  return fmt::format("profile of {}: {} of {:.3g} ms\n{}\n{}\n{}", report.job,
                     counted(static_cast<uint64_t>(report.calls), "step"), a_step,
                     threads_table(report).str(), entries_table(report, job, source),
                     steps_table(report).str());
}

}  // namespace flow::cli
