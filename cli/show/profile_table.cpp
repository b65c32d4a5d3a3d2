// Where the time of a run went, as people read it.
#include "cli/show/profile_table.h"

#include <fmt/format.h>

#include "cli/shared/table.h"
#include "cli/show/profile_entries.h"
#include "runtime/base/text.h"

namespace flow::cli {

namespace {

/// Number of the plan's steps in the table; profile.json has all.
constexpr size_t kListedSteps = 20;

double share(double seconds, double of) { return of > 0 ? 100 * seconds / of : 0; }

/// calls, total ms, share, median us
std::vector<std::string> numbers(const exec::ProfileRow& row, double of) {
  return {std::to_string(row.calls), fmt::format("{:.1f}", 1e3 * row.seconds),
          fmt::format("{:.1f} %", share(row.seconds, of)), fmt::format("{:.1f}", 1e6 * row.median)};
}

/// A table whose columns from `first` on are those numbers.
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

/// The slowest steps of the plan, and everything around them: copies, waiting, exchange.
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
