// Finds the first difference of two runs, and saves what that step read and computed.
#include "cli/flowdiff/commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/flowdiff/report.h"
#include "cli/shared/console.h"
#include "cli/shared/reports.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/text.h"
#include "runtime/compare/compare.h"
#include "runtime/compare/divergence.h"
#include "runtime/exec/core/run_files.h"

namespace flow::cli {
namespace {

using compare::Divergence;
using compare::DivergenceReport;
using compare::FingerprintedRun;

/// The result of repeating the two runs.
struct Captured {
  fs::path directory;  // contains golden/ and out/; empty if nothing was captured
  std::optional<compare::Comparison> arrays = {};  // compares the captured arrays of the two runs
  std::vector<std::string> notes = {};             // the reason for a failed capture, and commands
  bool recurs = true;                              // true if the captured arrays differ, too
};

struct FirstReport {
  DivergenceReport found;
  std::optional<DivergenceReport> closer = {};  // the repeated steps between two fingerprints
  Captured captured = {};
  std::string plans = {};
  std::vector<std::string> data = {};

  const std::optional<Divergence>& first() const {
    return closer && closer->first ? closer->first : found.first;
  }
};

std::string fingerprint_text(const Fingerprint& print) {
  std::string text = fmt::format(
      "{} elements, sum {:.9g}, absolute sum {:.9g}, square sum {:.9g}, min {:.9g}, max {:.9g}",
      grouped_digits(static_cast<uint64_t>(std::max<int64_t>(0, print.count))), print.sum,
      print.absolute, print.square, print.least, print.most);
  if (print.not_finite != 0) text += fmt::format(", {} not finite", print.not_finite);
  return text + fmt::format(", hash {:016x}", print.hash);
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  if (names.size() > kMost) shown.push_back(fmt::format("{} more", names.size() - kMost));
  return join(shown, ", ");
}

std::string place_text(const std::string& where) {
  return where.empty() ? "" : fmt::format(" ({})", where);
}

/// Returns the kind of the tensor: "made by lenet/conv1/conv", "input", or "variable at the
/// beginning of the step".
std::string kind_text(const Divergence& first) {
  switch (first.kind) {
    case Divergence::Kind::kInput:
      return "an input";
    case Divergence::Kind::kVariable:
      return "a variable, at the beginning of the step";
    case Divergence::Kind::kComputed:
      break;
  }
  return "made by " + first.made_by;
}

/// Describes when the variable changed, as far as the fingerprints show.
std::string hint_for_variable(const Divergence& first) {
  if (first.kind != Divergence::Kind::kVariable) return {};
  if (!first.agreed_at) return "no earlier step is recorded: the runs may begin differently";
  if (*first.agreed_at + 1 == first.step)
    return fmt::format("it was equal after step {}: it changed between the steps",
                       *first.agreed_at);
  return fmt::format("steps {} to {} have no fingerprints: use --fingerprint=1",
                     *first.agreed_at + 1, first.step - 1);
}

std::vector<std::string> lines_of(const FirstReport& report) {
  std::vector<std::string> lines;
  const DivergenceReport& found =
      report.closer && report.closer->first ? *report.closer : report.found;
  const auto& first = report.first();
  const std::string compared =
      fmt::format("{} in {}, steps {} to {}", counted(found.tensors, "tensor"),
                  counted(found.steps, "recorded step"), found.first_step, found.last_step);
  if (found.by_distance)
    lines.push_back(fmt::format("judged by distance, not bit by bit: {}", found.reason));
  if (!first) {
    lines.push_back(found.by_distance
                        ? fmt::format("no jump: compared {}; the largest distance is {:.2g}",
                                      compared, found.largest)
                        : fmt::format("no difference: compared {}", compared));
    return lines;
  }
  lines.push_back(fmt::format("first difference: step {}, {}, {}{}", first->step, first->tensor,
                              kind_text(*first), place_text(first->where)));
  if (found.by_distance)
    lines.push_back(fmt::format("  distance {:.2g}, after at most {:.2g} before it: a jump",
                                first->distance, first->growth));
  if (!first->agreeing.empty())
    lines.push_back(fmt::format("  inputs agree: {}", list_of(first->agreeing)));
  if (!first->unknown.empty())
    lines.push_back(fmt::format("  inputs without a fingerprint: {}", list_of(first->unknown)));
  lines.push_back("  golden: " + fingerprint_text(first->golden));
  lines.push_back("  out:    " + fingerprint_text(first->out));
  if (!first->also_differing.empty())
    lines.push_back(fmt::format("  later in the step: {} more", first->also_differing.size()));
  if (const std::string hint = hint_for_variable(*first); !hint.empty())
    lines.push_back("  " + hint);
  if (first->agreed_at)
    lines.push_back(fmt::format("  all tensors agree in step {}", *first->agreed_at));
  if (report.closer && report.closer->first)
    lines.push_back(fmt::format("  found by running steps {} to {} of both again",
                                report.closer->first_step, report.found.first->step));
  return lines;
}

/// Repeats both runs if this machine can.
class Reruns {
 public:
  Reruns(const FingerprintedRun& golden, const FingerprintedRun& out)
      : golden_(golden), out_(out) {}

  /// Repeats the steps between two fingerprints and records a fingerprint of each. Returns nothing
  /// and adds notes if that is impossible.
  std::optional<DivergenceReport> look_closer(const Divergence& first,
                                              std::vector<std::string>& notes) const {
    const std::vector<std::string> more = {"--fingerprint=1", "--fingerprint-size", "1024"};
    const fs::path& work = flowrun_.directory();
    if (!run(work, *first.agreed_at + 1, first.step, more, notes)) return {};
    return compare::find_divergence(compare::read_fingerprinted_run(work / "golden"),
                                    compare::read_fingerprinted_run(work / "out"));
  }

  Captured capture(const Divergence& first, const fs::path& to) const {
    Captured captured;
    const std::vector<std::string> more = {"--capture",
                                           fmt::format("{}@{}", first.made_by, first.step)};
    const fs::path work = flowrun_.directory() / "capture";
    if (!run(work, first.step, first.step, more, captured.notes)) return captured;
    make_folders(to);
    for (const char* side : {"golden", "out"}) {
      copy_tree(work / side / exec::kCaptureFolder, to / side);
    }
    captured.directory = to;
    compare::ToleranceRules exact;
    exact.relative = exact.absolute = 0;
    captured.arrays = compare::compare_sides(compare::list_side(to / "golden"),
                                             compare::list_side(to / "out"), exact);
    // Clears doubts about constant arrays. They do not come from a golden folder, so they prove as
    // much as other arrays.
    for (compare::ArrayDifference& array : captured.arrays->arrays) {
      array.doubts.clear();
      if (array.verdict == compare::Verdict::kMistrusted) array.verdict = compare::Verdict::kEqual;
    }
    captured.recurs = captured.arrays->failed() > 0;
    return captured;
  }

 private:
  /// Runs both, or neither if this machine cannot repeat one of them.
  bool run(const fs::path& work, int64_t from, int64_t step, const std::vector<std::string>& more,
           std::vector<std::string>& notes) const {
    const Rerun reruns[] = {{golden_, from, step, work / "golden"},
                            {out_, from, step, work / "out"}};
    for (const Rerun& rerun : reruns)
      if (!rerun.obstacle().empty()) return explain(rerun.obstacle(), from, step, more, notes);
    for (const Rerun& rerun : reruns)
      if (const std::string problem = rerun.run(flowrun_, more); !problem.empty())
        return explain(problem, from, step, more, notes);
    return true;
  }

  /// Adds notes with the reason why the runs were not repeated and with the commands that repeat
  /// them. Returns false.
  bool explain(const std::string& problem, int64_t from, int64_t step,
               const std::vector<std::string>& more, std::vector<std::string>& notes) const {
    notes.push_back("not run again: " + problem);
    for (const auto& [side, run] : {std::pair("golden", &golden_), std::pair("out", &out_)}) {
      const Rerun rerun(*run, from, step, fs::path("first") / side);
      if (rerun.is_repeatable())
        notes.push_back(fmt::format("  {}: {}", side, rerun.command(more)));
    }
    return false;
  }

  const FingerprintedRun &golden_, &out_;
  const FlowrunChild flowrun_{"flowdiff"};
};

fs::path free_directory() {
  std::error_code error;
  for (int number = 1; number < 1'000'000; ++number)
    if (fs::path path = fs::path("runs") / fmt::format("first-{:03}", number);
        !fs::exists(path, error))
      return path;
  throw RequestError("all directories runs/first-NNN are taken", "name a directory with -o DIR");
}

bool is_between_fingerprints(const Divergence& first) {
  return first.kind == Divergence::Kind::kVariable && first.agreed_at &&
         *first.agreed_at + 1 < first.step;
}

FirstReport find_first(const CompareOptions& options) {
  const FingerprintedRun golden = compare::read_fingerprinted_run(options.golden);
  const FingerprintedRun out = compare::read_fingerprinted_run(options.out);
  FirstReport report{.found = compare::find_divergence(golden, out)};
  report.plans = compare::plan_changes(golden.plan, out.plan);
  report.data = compare::data_changes(golden.path, out.path);
  if (!report.found.first || options.no_rerun) return report;
  const Reruns reruns(golden, out);
  if (is_between_fingerprints(*report.found.first)) {
    report.closer = reruns.look_closer(*report.found.first, report.captured.notes);
    if (report.closer && !report.closer->first)
      report.captured.notes.push_back(
          "the difference does not recur when both runs are made again: suspect the memory, the "
          "hardware or a race");
  }
  if (const auto& first = report.first(); first && first->kind == Divergence::Kind::kComputed) {
    const fs::path to = options.output ? fs::path(*options.output) : free_directory();
    report.captured = reruns.capture(*first, to);
  }
  return report;
}

OrderedJson json_of(const Fingerprint& print) {
  const auto number = [](double value) {
    return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
  };
  return {{"count", print.count},
          {"sum", number(print.sum)},
          {"absolute", number(print.absolute)},
          {"square", number(print.square)},
          {"min", number(print.least)},
          {"max", number(print.most)},
          {"not_finite", print.not_finite},
          {"hash", fmt::format("{:016x}", print.hash)}};
}

std::string json_of(const CompareOptions& options, const FirstReport& report) {
  const DivergenceReport& found =
      report.closer && report.closer->first ? *report.closer : report.found;
  OrderedJson json{{"golden", options.golden},
                   {"out", options.out},
                   {"by", found.by_distance ? "distance" : "hash"},
                   {"reason", found.reason},
                   {"tensors", found.tensors},
                   {"steps", found.steps},
                   {"first_step", found.first_step},
                   {"last_step", found.last_step},
                   {"first", nullptr}};
  if (!report.data.empty()) json["data"] = report.data;
  if (!report.plans.empty()) json["plans"] = report.plans;
  if (const auto& first = report.first()) {
    OrderedJson one{
        {"step", first->step},
        {"tensor", first->tensor},
        {"made_by", first->made_by.empty() ? OrderedJson(nullptr) : OrderedJson(first->made_by)},
        {"where", first->where},
        {"inputs_agree", first->agreeing},
        {"inputs_unknown", first->unknown},
        {"golden", json_of(first->golden)},
        {"out", json_of(first->out)}};
    if (first->agreed_at) one["agreed_at"] = *first->agreed_at;
    if (found.by_distance && std::isfinite(first->distance)) one["distance"] = first->distance;
    json["first"] = one;
  }
  if (!report.captured.directory.empty()) {
    json["captured"] = report.captured.directory.string();
    json["recurs"] = report.captured.recurs;
  }
  if (!report.captured.notes.empty()) json["notes"] = report.captured.notes;
  return json_text(json);
}

void print_report(const FirstReport& report) {
  for (const std::string& line : report.data) print(line + "\n");
  for (const std::string& line : lines_of(report)) print(escaped(line) + "\n");
  if (!report.plans.empty()) print(report.plans + "\n");
  for (const std::string& note : report.captured.notes) print(escaped(note) + "\n");
  if (report.captured.directory.empty()) return;
  print(fmt::format("both runs made again; arrays in {}:\n",
                    escaped(report.captured.directory.string())));
  print_painted(diff_table(*report.captured.arrays, false, wants_color(stdout)));
  if (!report.captured.recurs)
    print("the difference does not recur: suspect the memory, the hardware or a race\n");
}

}  // namespace

int run_first(const CompareOptions& options) {
  if (options.out.empty())
    throw RequestError("OUT is required", "name the run to compare with GOLDEN");
  if (options.junit || options.markdown || options.self_test)
    throw RequestError(fmt::format("--first conflicts with {}", options.junit      ? "--junit"
                                                                : options.markdown ? "--md"
                                                                                   : "--self-test"),
                       "omit one of them; --first writes --json");
  check_reports({{"--json", options.json}});
  std::error_code unknown;
  if (options.output && fs::exists(*options.output, unknown))
    throw RequestError(fmt::format("{} exists", *options.output), "name another directory with -o");
  const FirstReport report = find_first(options);
  if (report.found.steps == 0) {
    print_error("flowdiff",
                "nothing to compare: no step has fingerprints of the same tensor on both sides",
                "run both jobs with the same --fingerprint, for steps that both keep");
    return kNothingCompared;
  }
  const bool to_output = options.json && write_report_file(*options.json, json_of(options, report));
  if (!to_output) print_report(report);
  return report.first() ? kCheckFailed : kDone;
}

}  // namespace flow::cli
