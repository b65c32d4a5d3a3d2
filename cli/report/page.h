// Markup of a report, in which all is escaped that Html::trusted does not make, and its sections
// from top to bottom. One that has nothing to show is empty.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/flowdiff/report.h"
#include "cli/report/run_data.h"

namespace flow::cli::report {

namespace page {

/// The files of page/, which the build puts into the program.
extern const std::string_view kFragments, kStyle, kScript;

}  // namespace page

/// Names, messages and values longer than this are cut.
inline constexpr size_t kMostText = 300;

/// The text cut to at most `most` bytes, between characters, with "…" where something is missing.
std::string clipped(std::string_view text, size_t most);

class Html {
 public:
  Html() = default;
  template <std::integral Number>
  Html(Number number) : markup_(std::to_string(number)) {}
  /// Text is escaped and clipped.
  Html(std::string_view text) : Html(Html::text(text)) {}
  Html(const std::string& text) : Html(std::string_view(text)) {}
  Html(const char* text) : Html(std::string_view(text)) {}
  static Html text(std::string_view text, size_t most = kMostText);
  /// Markup that this program wrote.
  static Html trusted(std::string markup);

  Html& operator+=(const Html& more) {
    markup_ += more.markup_;
    return *this;
  }
  bool empty() const { return markup_.empty(); }
  const std::string& str() const { return markup_; }

 private:
  std::string markup_;
};

using Values = std::vector<std::pair<std::string_view, Html>>;

/// The fragment of that name in page/fragments.html, with `{{name}}` replaced by values.
/// REQUIRES: it has those names and no others.
Html fragment(std::string_view name, const Values& values = {});

/// A section with its title and a line below it.
Html section(std::string_view id, std::string_view title, const std::string& remark, Html body);

/// "c3 d0": the classes that give a run its color and dashes.
std::string class_of_run(size_t run);

struct Report {
  std::vector<RunData> runs;
  std::vector<Arrays> arrays;  // by run
  std::vector<DiffReport> comparisons;
};

/// What `flowdiff --json` wrote to the file. RequestError where it has something else.
DiffReport read_comparison(const fs::path& path);

/// The files of that kind among the JSON files of a run directory.
std::vector<DiffReport> find_comparisons(RunData& run);

/// What ran, how, where, and how it ended; of several runs a table, with settings that differ.
Html runs_section(const Report& report);
/// Each metric over the steps, of all runs.
Html curves_section(const Report& report);
/// The network as `flowc show` draws it.
Html network_section(const Report& report);
/// Memory over the steps of a call.
Html memory_section(const Report& report);
/// Histograms of watched values and gradients.
Html distributions_section(const Report& report);
/// What the jobs returned.
Html samples_section(const Report& report);
/// The verdicts of flowdiff.
Html comparisons_section(const Report& report);
/// What could not be read or was left out.
Html notes_section(const Report& report);

}  // namespace flow::cli::report
