// The markup and the sections of a report. All text is escaped unless Html::trusted makes it. The
// sections are declared in the order of the page; a section without content is empty.
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

/// The maximum length of names, messages and values, which are clipped beyond it.
inline constexpr size_t kMostText = 300;

/// Returns the text clipped to at most `most` bytes. It is cut between characters, and "…" marks
/// the cut.
std::string clipped(std::string_view text, size_t most);

class Html {
 public:
  Html() = default;
  template <std::integral Number>
  Html(Number number) : markup_(std::to_string(number)) {}
  /// Escapes and clips the text.
  Html(std::string_view text) : Html(Html::text(text)) {}
  Html(const std::string& text) : Html(std::string_view(text)) {}
  Html(const char* text) : Html(std::string_view(text)) {}
  static Html text(std::string_view text, size_t most = kMostText);
  /// Returns markup that this program wrote, without escaping it.
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

/// Returns a fragment of page/fragments.html with each `{{name}}` replaced by its value. REQUIRES:
/// `values` contains exactly the names of the fragment.
Html fragment(std::string_view name, const Values& values = {});

/// Returns a section with its title and a remark below the title.
Html section(std::string_view id, std::string_view title, const std::string& remark, Html body);

/// Returns the CSS classes that give a run its color and dashes, such as "c3 d0".
std::string class_of_run(size_t run);

struct Report {
  std::vector<RunData> runs;
  std::vector<Arrays> arrays;  // one element per run
  std::vector<DiffReport> comparisons;
};

/// Reads a file that `flowdiff --json` wrote. Throws RequestError if the file contains something
/// else.
DiffReport read_comparison(const fs::path& path);

/// Returns the comparisons among the JSON files of a run directory.
std::vector<DiffReport> find_comparisons(RunData& run);

/// Returns the section that shows what ran, how, where, and how it ended. Several runs have a table
/// with the settings that differ.
Html runs_section(const Report& report);
/// Returns the section with each metric of all runs over the steps.
Html curves_section(const Report& report);
/// Returns the section with the network as `flowc show` draws it.
Html network_section(const Report& report);
/// Returns the section with the memory over the steps of a call.
Html memory_section(const Report& report);
/// Returns the section with histograms of watched values and gradients.
Html distributions_section(const Report& report);
/// Returns the section with the values that the jobs returned.
Html samples_section(const Report& report);
/// Returns the section with the verdicts of flowdiff.
Html comparisons_section(const Report& report);
/// Returns the section that lists what could not be read or was left out.
Html notes_section(const Report& report);

}  // namespace flow::cli::report
