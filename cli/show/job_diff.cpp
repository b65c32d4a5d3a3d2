// Compares two jobs entry by entry, and as a whole.
#include "cli/show/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cli/shared/reports.h"
#include "cli/show/job_tree.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

std::string shape_of(const plan::Job& job, const Entry& entry) {
  return entry.output.valid() ? type_of(job, job[entry.output]) : "none";
}

/// Returns a text such as "dense + relu, float32 [100, 512], 1.61 M parameters".
std::string entry_text(const plan::Job& job, const Entry& entry) {
  std::string text = entry.op + ", " + shape_of(job, entry);
  if (entry.parameters > 0)
    text += fmt::format(", {} parameters", human_count(static_cast<double>(entry.parameters)));
  return text;
}

std::string change(const std::string& a, const std::string& b) {
  return fmt::format("{} -> {}", a, b);
}

/// Returns a text such as "1,663,370 -> 860,000 (-48.3 %)".
std::string change(double a, double b, std::string (*text)(double)) {
  std::string line = change(text(a), text(b));
  if (a > 0) line += fmt::format(" ({:+.3g} %)", 100 * (b - a) / a);
  return line;
}

std::string as_digits(double count) { return grouped_digits(static_cast<uint64_t>(count)); }
std::string as_bytes(double bytes) { return human_bytes(static_cast<uint64_t>(bytes)); }

class JobDiff {
 public:
  JobDiff(const WrittenJob& a, const WrittenJob& b)
      : a_(a.job),
        b_(b.job),
        tree_a_(tree_of(a.job, a.entries)),
        tree_b_(tree_of(b.job, b.entries)) {}

  std::string run(std::span<const plan::Difference> found) {
    compare_entries();
    compare_totals();
    compare_schedules();
    for (const plan::Difference& difference : found) add_value(difference);
    return lines();
  }

 private:
  /// A line of the result. Names with the same change share one line.
  struct Line {
    std::string kind, first, text;
    size_t more = 0;
  };

  void add(const std::string& kind, const std::string& name, std::string text) {
    const auto [line, first] = line_of_.try_emplace({kind, text}, lines_.size());
    if (first)
      lines_.push_back({kind, name, std::move(text)});
    else
      ++lines_[line->second].more;
  }

  /// Adds a change of the whole job on a separate line.
  void add_total(const std::string& name, std::string text) {
    lines_.push_back({"changed", name, std::move(text)});
  }

  void compare_entries() {
    for (const Entry& entry : tree_a_.entries) {
      if (entry.path.empty()) continue;
      const auto found = tree_b_.by_path.find(entry.path);
      const Entry* other =
          found == tree_b_.by_path.end() ? nullptr : &tree_b_.entries[found->second];
      if (other && !(entry.network && other->network)) compare(entry, *other);
      if (!other && !entry.network) add("removed", entry.path, entry_text(a_, entry));
    }
    for (const Entry& entry : tree_b_.entries)
      if (!entry.path.empty() && !entry.network && !tree_a_.by_path.contains(entry.path))
        add("added", entry.path, entry_text(b_, entry));
  }

  void compare(const Entry& a, const Entry& b) {
    const std::string& path = a.path;
    if (a.op != b.op) add("changed", path, "op " + change(a.op, b.op));
    if (const std::string one = shape_of(a_, a), other = shape_of(b_, b); one != other)
      add("changed", path, "output " + change(one, other));
    if (a.parameters != b.parameters)
      add("changed", path,
          "parameters " + change(grouped_digits(a.parameters), grouped_digits(b.parameters)));
    if (a.device != b.device)
      add("changed", path,
          "device " + change(std::string(name_of(a.device)), std::string(name_of(b.device))));
  }

  void compare_totals() {
    const JobTotals a = totals_of(a_), b = totals_of(b_);
    const auto total = [&](const char* name, auto one, auto other, std::string (*text)(double)) {
      if (one != other)
        add_total(name, change(static_cast<double>(one), static_cast<double>(other), text));
    };
    total("parameters", a.trained + a.frozen, b.trained + b.frozen, as_digits);
    if (a.frozen != b.frozen) total("trained parameters", a.trained, b.trained, as_digits);
    total("moving statistics", a.statistics, b.statistics, as_digits);
    total("FLOPs a step", a.forward + a.backward, b.forward + b.backward, human_count);
    total("memory", a.memory, b.memory, as_bytes);
    total("checkpoint", a.checkpoint, b.checkpoint, as_bytes);
    total("steps in the plan", a_.steps.size(), b_.steps.size(), as_digits);
  }

  void compare_schedules() {
    if (!a_.optimizer || !b_.optimizer) return;
    const auto part = [&](const char* name, const std::string& one, const std::string& other) {
      if (one != other) add_total(name, change(one, other));
    };
    part("optimizer", a_.optimizer->type, b_.optimizer->type);
    part("loss", a_.optimizer->loss_name, b_.optimizer->loss_name);
    part("learning rate", schedule_text(a_.optimizer->learning_rate),
         schedule_text(b_.optimizer->learning_rate));
  }

  /// Adds a changed value that the lines above do not cover.
  void add_value(const plan::Difference& difference) {
    const std::string& path = difference.path;
    for (const char* covered :
         {"tensors", "optimizer.type", "optimizer.loss", "optimizer.learning_rate"})
      if (path.starts_with(covered)) return;
    const bool both = difference.a && difference.b;
    const std::string text =
        both ? change(shortened(*difference.a), shortened(*difference.b)) : std::string();
    for (const char* list : {"steps[", "variables["}) {
      if (!path.starts_with(list)) continue;
      const size_t end = path.find("].");
      const size_t name = path.find('[') + 1;
      const bool attribute = end != path.npos && both &&
                             (path.find(".attributes.", end) != path.npos ||
                              path.find(".initializer", end) != path.npos);
      if (attribute) {
        const std::string value = path.substr(end + 2);
        const bool plain = value.starts_with("attributes.");
        add("changed", path.substr(name, end - name),
            (plain ? value.substr(value.find('.') + 1) : value) + " " + text);
      }
      return;  // the entries already show what is added or removed
    }
    if (path.starts_with("steps") || path.starts_with("variables")) return;  // differences in order
    if (both)
      add_total(path, text);
    else
      lines_.push_back({difference.a ? "removed" : "added", path, ""});
  }

  std::string lines() const {
    constexpr size_t kMostLines = 60;
    Table table;
    for (size_t i = 0; i < std::min(kMostLines, lines_.size()); ++i) {
      const Line& line = lines_[i];
      table.row({line.kind,
                 line.more ? fmt::format("{} and {} more", line.first, line.more) : line.first,
                 line.text});
    }
    if (lines_.size() > kMostLines)
      table.row({"", fmt::format("and {} more", lines_.size() - kMostLines)});
    return table.str();
  }

  const plan::Job &a_, &b_;
  const JobTree tree_a_, tree_b_;
  std::vector<Line> lines_;
  std::map<std::pair<std::string, std::string>, size_t> line_of_;  // indexed by kind and text
};

}  // namespace

std::string diff_text(const WrittenJob& a, const WrittenJob& b,
                      std::span<const plan::Difference> found) {
  return JobDiff(a, b).run(found);
}

std::string list_values(std::span<const plan::Difference> found) {
  std::string text;
  for (const plan::Difference& difference : found) {
    if (difference.a && difference.b)
      text += fmt::format("~ {}: {} -> {}\n", escaped(difference.path), escaped(*difference.a),
                          escaped(*difference.b));
    else
      text += fmt::format("{} {}\n", difference.a ? "-" : "+", escaped(difference.path));
  }
  return text;
}

}  // namespace flow::cli
