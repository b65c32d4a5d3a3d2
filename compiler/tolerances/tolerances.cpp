// Reads tolerances.yaml, with the tables and messages of job files.
#include "compiler/tolerances/tolerances.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/job/read/sections.h"
#include "compiler/job/tables/keys.h"
#include "compiler/job/text/values.h"
#include "compiler/yaml/parse.h"
#include "compiler/yaml/tree.h"
#include "runtime/base/file.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/record.h"

namespace flow::tolerances {
namespace {

using job::Fields;
using job::KeyDef;
using job::KeyType;
using job::Section;

KeyDef not_negative(std::string_view name, std::string_view fallback, std::string_view doc) {
  return {.name = name,
          .type = KeyType::kNumber,
          .fallback = fallback,
          .doc = doc,
          .bounds = plan::kNotNegative};
}

std::vector<KeyDef> tolerance_keys() {
  return {not_negative("rtol", "0", "relative tolerance, times |golden|"),
          not_negative("atol", "0", "absolute tolerance")};
}

const Section& steps_section() {
  static const Section kTolerance{
      .what = "a tolerance of steps", .keys = tolerance_keys(), .one_of = {"rtol", "atol"}};
  static const Section kSection{
      .what = "`steps` of a tolerance",
      .keys = {},
      .each = job::section("", "none",
                           "tolerance in steps such as `7`, `0..10` or `10..`; the "
                           "last match wins",
                           kTolerance)};
  return kSection;
}

const Section& arrays_section() {
  static const Section kSection{
      .what = "`arrays`",
      .keys = {},
      .each =
          job::section("", "none", "tolerance of matching arrays of any dtype; the last match wins",
                       entry_section()),
      .own_keys = job::OwnKeys::kGlobs};
  return kSection;
}

constexpr const char* kHowToBegin =
    "begin with `arrays:`, and below it a line such as `\"returns/**\": {rtol: 1e-5, reason: ...}`";
constexpr const char* kStepForms = "write a step, `5..8` for 5, 6 and 7, or `5..` for 5 and later";

class EntryReader {
 public:
  explicit EntryReader(job::Reader& reader) : reader_(reader) {}

  std::vector<Entry> read(const yaml::Node& root) {
    std::vector<Entry> entries;
    const Fields file(reader_, root, root.span, file_section());
    const yaml::Node* arrays = file.require("arrays");
    if (!arrays || !reader_.expect(*arrays, yaml::Kind::kMapping, "`arrays`")) return entries;
    for (const yaml::Entry& entry : arrays->entries) entries.push_back(read_entry(entry));
    return entries;
  }

 private:
  Entry read_entry(const yaml::Entry& written) {
    const size_t before = reader_.diags.error_count();
    const Fields fields(reader_, written.value, written.key_span, entry_section());
    const bool known = reader_.diags.error_count() == before;  // whether all its keys are known
    Entry entry{.glob = {written.key, written.key_span},
                .relative = fields.number("rtol").value_or(0),
                .absolute = fields.number("atol").value_or(0),
                .steps = {},
                .last_step = fields.integer("last_step"),
                .spread = fields.number("spread"),
                .reason = fields.text("reason").value_or("")};
    if (const yaml::Node* steps = fields.find("steps")) read_steps(*steps, entry);
    if (known) require_one(fields, entry_section());
    return entry;
  }

  void require_one(const Fields& fields, const Section& section) {
    const auto has = [&](std::string_view key) { return fields.find(key) != nullptr; };
    if (!fields.is_mapping() || std::ranges::any_of(section.one_of, has)) return;
    reader_
        .error(Diagnosis::kMissingKey, fields.owner(),
               fmt::format("{} requires {}", section.what,
                           quoted_alternatives(std::vector<std::string>(section.one_of.begin(),
                                                                        section.one_of.end()))))
        .with_hint("add `rtol: 1e-5`, or `atol: 0` for exact results");
  }

  void read_steps(const yaml::Node& node, Entry& entry) {
    if (!reader_.expect(node, yaml::Kind::kMapping, "`steps`")) return;
    const Section& section = *steps_section().each->section;
    for (const yaml::Entry& written : node.entries) {
      const Fields fields(reader_, written.value, written.key_span, section);
      require_one(fields, section);
      if (const auto range = range_of(written.key))
        entry.steps.push_back({*range,
                               {written.key, written.key_span},
                               fields.number("rtol").value_or(0),
                               fields.number("atol").value_or(0)});
      else
        reader_
            .error(Diagnosis::kStepList, written.key_span,
                   fmt::format("invalid steps `{}`", written.key))
            .with_hint(kStepForms);
    }
  }

  static std::optional<plan::StepRange> range_of(std::string_view text) {
    if (const auto step = job::parse_bound(text); step && *step >= 0 && *step < INT64_MAX)
      return plan::StepRange{*step, *step + 1, 1};
    const auto ends = job::parse_range(text);
    if (!ends || ends->first < 0 || ends->second <= ends->first) return {};
    return plan::StepRange{ends->first, ends->second, 1};
  }

  job::Reader& reader_;
};

}  // namespace

const Section& file_section() {
  static const Section kSection{
      .what = "the file of tolerances",
      .keys = {job::section("arrays", "", "tolerances by the names of arrays, without `.npy`",
                            arrays_section())}};
  return kSection;
}

const Section& entry_section() {
  static const Section kSection = [] {
    Section section{.what = "a tolerance", .keys = tolerance_keys()};
    section.keys.push_back(job::section(
        "steps", "none", "tolerances of certain steps, for arrays with steps", steps_section()));
    section.keys.push_back({.name = "last_step",
                            .type = KeyType::kInteger,
                            .fallback = "none",
                            .doc = "last step that is judged; later ones may differ",
                            .bounds = plan::kNotNegative});
    section.keys.push_back(
        not_negative("spread", "none",
                     "largest error between runs that are equally right, as `flowdiff calibrate` "
                     "measures it; a tighter tolerance is an error"));
    section.keys.push_back(job::text("reason", "", "why this tolerance is right"));
    section.one_of = {"rtol", "atol", "steps"};
    return section;
  }();
  return kSection;
}

TolerancesFile::TolerancesFile(const fs::path& path) : diags_(sources_) {
  const int32_t source =
      sources_.add(path.string(), read_inside(path.parent_path(), path, yaml::kLargestFile));
  const yaml::Node root = yaml::parse(sources_, source, diags_, kHowToBegin);
  job::Reader reader(sources_, diags_, source);
  reader.is_job_file = false;
  if (root.is_mapping()) entries_ = EntryReader(reader).read(root);
}

void TolerancesFile::check_globs(std::span<const std::string> names) {
  for (const Entry& entry : entries_) {
    const auto matches = [&](const std::string& name) { return glob_match(entry.glob.text, name); };
    if (std::ranges::any_of(names, matches)) continue;
    const auto near = suggest(entry.glob.text, names);
    diags_.error(Diagnosis::kNothingMatched, entry.glob.span, no_match("array", entry.glob.text))
        .with_hint(near.empty() ? "write the path below the directory, without .npy; `*` matches "
                                  "within a component, `**` across `/`"
                                : "did you mean " + quoted_alternatives(near) + "?");
  }
}

void TolerancesFile::check_steps(std::span<const std::string> names, const StepsOf& steps_of) {
  for (const Entry& entry : entries_) {
    if (entry.steps.empty()) continue;
    std::set<int64_t> known;
    for (const std::string& name : names)
      if (glob_match(entry.glob.text, name)) {
        const std::vector<int64_t> steps = steps_of(name);
        known.insert(steps.begin(), steps.end());
      }
    if (known.empty()) continue;
    for (const Entry::Steps& steps : entry.steps) {
      const auto at = known.lower_bound(steps.range.first);
      if (at != known.end() && *at < steps.range.end) continue;
      diags_
          .error(Diagnosis::kNothingMatched, steps.written.span,
                 fmt::format("no step in `{}`: arrays that match `{}` have {}, from {} to {}",
                             steps.written.text, entry.glob.text, counted(known.size(), "step"),
                             *known.begin(), *known.rbegin()))
          .with_hint("use steps that the arrays have, or remove the line");
    }
  }
}

}  // namespace flow::tolerances
