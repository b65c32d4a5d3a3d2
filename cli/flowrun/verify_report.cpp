// Formats the results of `flowrun verify` as text for people and for programs.
#include "cli/flowrun/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/shared/reports.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {
namespace {

using verify::Proof;
using verify::Result;
using verify::Verdict;

std::string row(std::string_view name, std::string_view verdict, std::string_view detail) {
  return trimmed(fmt::format("{:<10} {:<8} {}", name, verdict, detail)) + '\n';
}

size_t count(const VerifyReport& report, Verdict verdict) {
  return static_cast<size_t>(std::ranges::count(report.results, verdict, &Result::verdict));
}

int64_t unproved(const VerifyReport& report) {
  return std::ranges::count_if(report.proofs, [](const Proof& p) { return !p.is_caught(); });
}

const char* verdict_of(const Proof& proof) { return proof.is_caught() ? "caught" : "unproved"; }

/// Describes the damage that was done and the properties that noticed it.
std::string detail_of(const Proof& proof) {
  const std::string failing = proof.failing.empty() ? std::string()
                                                    : fmt::format("; fails even without damage: {}",
                                                                  join(proof.failing, ", "));
  if (proof.done.empty())
    return (proof.failing.empty() ? "nothing to damage" : "not tried") + failing;
  std::string text = proof.done;
  if (!proof.caught.empty()) text += fmt::format("; noticed by {}", join(proof.caught, ", "));
  if (!proof.unproved.empty()) text += fmt::format("; not by {}", join(proof.unproved, ", "));
  return text + failing;
}

/// Returns the lines below a result.
std::vector<std::string> notes_of(const Result& result) {
  std::vector<std::string> lines;
  if (result.difference) {
    lines.push_back(text_of(*result.difference));
    if (result.difference->differing > 1)
      lines.push_back(fmt::format("{} differ", counted(result.difference->differing, "array")));
  }
  lines.insert(lines.end(), result.notes.begin(), result.notes.end());
  return lines;
}

OrderedJson json_difference(const verify::Difference& difference) {
  OrderedJson json;
  if (difference.step) json["step"] = *difference.step;
  json["tensor"] = difference.tensor;
  json["index"] = difference.index;
  json["first"] = difference.first;
  json["second"] = difference.second;
  json["where"] = difference.where;
  json["differing"] = difference.differing;
  return json;
}

OrderedJson json_result(const Result& result) {
  OrderedJson json{
      {"name", result.property}, {"verdict", name_of(result.verdict)}, {"detail", result.detail}};
  if (result.difference) json["difference"] = json_difference(*result.difference);
  if (!result.notes.empty()) json["notes"] = result.notes;
  return json;
}

OrderedJson json_proof(const Proof& proof) {
  OrderedJson json{{"damage", proof.name},       {"verdict", verdict_of(proof)},
                   {"done", proof.done},         {"caught_by", proof.caught},
                   {"unproved", proof.unproved}, {"failing_undamaged", proof.failing}};
  if (proof.difference) json["difference"] = json_difference(*proof.difference);
  return json;
}

std::string xml_result(const Result& result) {
  const std::string detail = xml(result.detail);
  switch (result.verdict) {
    case Verdict::kDiffers:
      return junit_failure("differs: " + result.detail, xml(join(notes_of(result), "; ")));
    case Verdict::kError:
      return fmt::format("<error message=\"{}\">{}</error>", detail,
                         xml(join(notes_of(result), "; ")));
    case Verdict::kNotApplicable:
      return fmt::format("<skipped message=\"{}\"/>", detail);
    case Verdict::kMeasured:
      return fmt::format("<system-out>{}</system-out>", xml(join(notes_of(result), "\n")));
    case Verdict::kHolds:
      break;
  }
  return {};
}

std::string xml_proof(const Proof& proof, bool strict) {
  if (proof.is_caught()) return {};
  const char* tag = strict ? "failure" : "skipped";
  return fmt::format("<{} message=\"unproved: {}\"/>", tag, xml(detail_of(proof)));
}

}  // namespace

std::string title_of_results() { return row("property", "verdict", "runs compared"); }

std::string lines_of(const Result& result) {
  std::string text = row(result.property, name_of(result.verdict), result.detail);
  constexpr size_t kMostShown = 8;
  const std::vector<std::string> notes = notes_of(result);
  for (size_t i = 0; i < std::min(kMostShown, notes.size()); ++i) text += "    " + notes[i] + '\n';
  if (notes.size() > kMostShown)
    text += fmt::format("    and {}, which --json lists\n",
                        counted(notes.size() - kMostShown, "more line"));
  return text;
}

std::string title_of_proofs() { return row("damage", "verdict", "what was done"); }

std::string lines_of(const Proof& proof) {
  std::string text = row(proof.name, verdict_of(proof), detail_of(proof));
  if (proof.difference) text += "    " + text_of(*proof.difference) + '\n';
  return text;
}

std::string summary_of(const VerifyReport& report) {
  const std::string text =
      fmt::format("{}: {}",
                  report.results.size() == 1 ? "1 property"
                                             : fmt::format("{} properties", report.results.size()),
                  counts_text({{count(report, Verdict::kHolds), "hold"},
                               {count(report, Verdict::kDiffers), "differ"},
                               {count(report, Verdict::kError), "failed to run"},
                               {count(report, Verdict::kMeasured), "measured"},
                               {count(report, Verdict::kNotApplicable), "n/a"}}));
  if (report.proofs.empty()) return text;
  return text + fmt::format("; damage: {} of {} noticed",
                            static_cast<int64_t>(report.proofs.size()) - unproved(report),
                            report.proofs.size());
}

std::string verify_json(const VerifyReport& report) {
  OrderedJson json{{"job", report.job},
                   {"file", report.file},
                   {"summary", summary_of(report)},
                   {"properties", OrderedJson::array()}};
  for (const Result& result : report.results) json["properties"].push_back(json_result(result));
  if (!report.proofs.empty()) json["damage"] = OrderedJson::array();
  for (const Proof& proof : report.proofs) json["damage"].push_back(json_proof(proof));
  return json_text(json);
}

std::string verify_junit(const VerifyReport& report, bool strict) {
  std::vector<JunitCase> cases;
  for (const Result& result : report.results)
    cases.push_back({"flowrun.verify.property", result.property, xml_result(result)});
  for (const Proof& proof : report.proofs)
    cases.push_back({"flowrun.verify.damage", proof.name, xml_proof(proof, strict)});
  return junit("flowrun verify " + report.job, cases, {}, true);
}

int exit_status_of(const VerifyReport& report, bool strict) {
  if (count(report, Verdict::kDiffers) > 0 || (strict && unproved(report) > 0)) return kCheckFailed;
  return count(report, Verdict::kError) > 0 ? kRunFailed : kDone;
}

}  // namespace flow::cli
