// What flowdiff found, as text.
#include "cli/diff_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {

namespace {

using io::ArrayDifference;
using Verdict = ArrayDifference::Verdict;

struct VerdictWords {
  Verdict verdict;
  const char* name;        // in a table, in JSON
  const char *one, *many;  // in a summary, after a number
};
constexpr std::array kVerdicts = {
    VerdictWords{Verdict::kEqual, "equal", "equal", "equal"},
    VerdictWords{Verdict::kWithin, "within", "within tolerance", "within tolerance"},
    VerdictWords{Verdict::kDiffers, "differs", "differs", "differ"},
    VerdictWords{Verdict::kMissing, "missing", "missing", "missing"},
    VerdictWords{Verdict::kExtra, "extra", "extra", "extra"},
    VerdictWords{Verdict::kDType, "dtype", "has a different dtype", "have a different dtype"},
    VerdictWords{Verdict::kShape, "shape", "has a different shape", "have a different shape"},
    VerdictWords{Verdict::kUnreadable, "unreadable", "cannot be read", "cannot be read"},
};

const char* name_of_verdict(Verdict verdict) {
  return kVerdicts[static_cast<size_t>(verdict)].name;
}

bool was_compared(const ArrayDifference& array) { return array.verdict <= Verdict::kDiffers; }

std::string error_text(const ArrayDifference& array, double error) {
  if (!was_compared(array)) return "-";
  return error == 0 ? "0" : fmt::format("{:.2e}", error);
}

std::string index_text(const std::vector<int64_t>& index) { return Shape(index).str(); }

/// name, dtype, shape, max abs err, max rel err, over tolerance, verdict.
using Cells = std::array<std::string, 7>;
const Cells kTitles = {"array", "dtype", "shape", "max abs err", "max rel err", "over", "verdict"};

Cells cells_of(const ArrayDifference& array) {
  const bool known = array.verdict != Verdict::kUnreadable;
  return {escaped(array.name),
          known ? std::string(name_of(array.dtype)) : "-",
          known ? array.shape.str() : "-",
          error_text(array, array.absolute.error),
          error_text(array, array.relative.error),
          was_compared(array) ? fmt::format("{}", array.over) : "-",
          name_of_verdict(array.verdict)};
}

std::string worst_text(const char* what, const ArrayDifference::Worst& worst) {
  return fmt::format("max {} err {:.3g} at {}: golden {}, out {}", what, worst.error,
                     index_text(worst.index), worst.golden, worst.out);
}

/// Why an array fails, a sentence each.
std::vector<std::string> reasons(const ArrayDifference& array) {
  switch (array.verdict) {
    case Verdict::kMissing:
      return {"in golden, but not in out"};
    case Verdict::kExtra:
      return {"in out, but not in golden"};
    case Verdict::kDiffers:
      break;
    default:
      return {array.detail};
  }
  std::vector<std::string> lines = {fmt::format(
      "{} of {} elements over tolerance (rtol {:g}, atol {:g}); first at {}: golden {}, out {}",
      array.over, array.elements, array.tolerance.relative, array.tolerance.absolute,
      index_text(array.first_mismatch), array.first_golden, array.first_out)};
  if (array.absolute.error > 0) lines.push_back(worst_text("abs", array.absolute));
  if (array.relative.error > 0) lines.push_back(worst_text("rel", array.relative));
  if (array.nan_mismatches > 0)
    lines.push_back(fmt::format("NaN on one side only: {}", array.nan_mismatches));
  if (array.inf_mismatches > 0)
    lines.push_back(fmt::format("unmatched infinities: {}", array.inf_mismatches));
  return lines;
}

const char* color_of(Verdict verdict) {
  return verdict <= Verdict::kWithin ? "\033[32m" : "\033[1;31m";
}

/// Columns 3 to 5 are numbers, aligned right.
std::string aligned(const Cells& cells, const std::array<size_t, 7>& widths) {
  std::string line;
  for (size_t i = 0; i + 1 < cells.size(); ++i)
    line += i >= 3 ? fmt::format("{:>{}}  ", cells[i], widths[i])
                   : fmt::format("{:<{}}  ", cells[i], widths[i]);
  return line;
}

}  // namespace

std::string diff_table(const io::Comparison& comparison, bool brief, bool color) {
  std::vector<const ArrayDifference*> shown;
  for (const ArrayDifference& array : comparison.arrays)
    if (!brief || array.failed()) shown.push_back(&array);
  std::string text;
  if (!shown.empty()) {
    std::array<size_t, 7> widths{};
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = kTitles[i].size();
      for (const auto* array : shown) widths[i] = std::max(widths[i], cells_of(*array)[i].size());
    }
    text += aligned(kTitles, widths) + kTitles.back() + '\n';
    for (const auto* array : shown) {
      const Cells cells = cells_of(*array);
      text += aligned(cells, widths);
      text += color ? color_of(array->verdict) + cells.back() + "\033[0m" : cells.back();
      text += '\n';
      if (!array->failed()) continue;
      for (const std::string& reason : reasons(*array))
        text += fmt::format("    {}\n", escaped(reason));
    }
  }
  return text + diff_summary(comparison) + '\n';
}

std::string diff_summary(const io::Comparison& comparison) {
  const size_t all = comparison.arrays.size();
  std::string text = counted(all, "array");
  const char* separator = ": ";
  for (const VerdictWords& words : kVerdicts) {
    const auto count =
        std::ranges::count(comparison.arrays, words.verdict, &ArrayDifference::verdict);
    if (count == 0) continue;
    text += fmt::format("{}{} {}", separator, count, count == 1 ? words.one : words.many);
    separator = ", ";
  }
  if (!comparison.ignored.empty()) text += fmt::format("; {} ignored", comparison.ignored.size());
  return text;
}

namespace {

OrderedJson json_number(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

OrderedJson json_worst(const ArrayDifference::Worst& worst) {
  return {{"error", json_number(worst.error)},
          {"index", worst.index},
          {"golden", worst.golden},
          {"out", worst.out}};
}

OrderedJson json_array(const ArrayDifference& array) {
  OrderedJson json{{"name", array.name}, {"verdict", name_of_verdict(array.verdict)}};
  if (!array.detail.empty()) json["detail"] = array.detail;
  if (array.verdict != Verdict::kUnreadable) {
    json["dtype"] = name_of(array.dtype);
    json["shape"] = array.shape.extents();
  }
  if (!was_compared(array)) return json;
  json["rtol"] = array.tolerance.relative;
  json["atol"] = array.tolerance.absolute;
  json["elements"] = array.elements;
  json["over"] = array.over;
  json["nan_mismatches"] = array.nan_mismatches;
  json["inf_mismatches"] = array.inf_mismatches;
  json["max_abs"] = json_worst(array.absolute);
  json["max_rel"] = json_worst(array.relative);
  if (array.over > 0)
    json["first"] = {
        {"index", array.first_mismatch}, {"golden", array.first_golden}, {"out", array.first_out}};
  return json;
}

}  // namespace

std::string first_text(const exec::FirstDifference& first) {
  return fmt::format("first difference in computation order: {}{}", escaped(first.array),
                     first.step ? fmt::format(", at step {}", *first.step) : "");
}

std::string diff_json(const io::Comparison& comparison, const std::string& golden,
                      const std::string& out, const std::optional<exec::FirstDifference>& first) {
  OrderedJson json{{"golden", golden},
                   {"out", out},
                   {"failed", comparison.failed()},
                   {"summary", diff_summary(comparison)},
                   {"ignored", comparison.ignored},
                   {"arrays", OrderedJson::array()}};
  if (first) json["first"]["array"] = first->array;
  if (first && first->step) json["first"]["step"] = *first->step;
  for (const ArrayDifference& array : comparison.arrays)
    json["arrays"].push_back(json_array(array));
  // Names of files need not be UTF-8.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + '\n';
}

namespace {

/// Text inside an XML attribute or element. What XML cannot hold is escaped, as on a terminal.
std::string xml(const std::string& text) {
  std::string out;
  for (const char c : escaped(text)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

std::string markdown(const std::string& text) {
  std::string out;
  for (const char c : escaped(text)) {
    if (std::string_view("|\\`*_<").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string diff_junit(const io::Comparison& comparison,
                       const std::optional<exec::FirstDifference>& first) {
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuite name=\"flowdiff\" tests=\"{}\" failures=\"{}\">\n",
      comparison.arrays.size(), comparison.failed());
  for (const ArrayDifference& array : comparison.arrays) {
    text += fmt::format("  <testcase classname=\"flowdiff\" name=\"{}\"", xml(array.name));
    if (!array.failed()) {
      text += "/>\n";
      continue;
    }
    std::vector<std::string> why = reasons(array);
    if (first && first->array == array.name) why.push_back(first_text(*first));
    text += fmt::format(">\n    <failure message=\"{}{}\">", name_of_verdict(array.verdict),
                        why.empty() ? "" : ": " + xml(why.front()));
    for (const std::string& reason : why) text += xml(reason) + '\n';
    text += "</failure>\n  </testcase>\n";
  }
  return text + "</testsuite>\n";
}

std::string diff_markdown(const io::Comparison& comparison,
                          const std::optional<exec::FirstDifference>& first) {
  const auto line = [](const Cells& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += ' ' + markdown(cell) + " |";
    return text + '\n';
  };
  std::string text = line(kTitles) + "| --- | --- | --- | ---: | ---: | ---: | --- |\n";
  for (const ArrayDifference& array : comparison.arrays) text += line(cells_of(array));
  text += '\n' + diff_summary(comparison) + '\n';
  return first ? text + '\n' + markdown(first_text(*first)) + '\n' : text;
}

}  // namespace flow::cli
