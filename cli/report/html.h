// Markup of a report. User's text gets into it only through Html::text, which escapes it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  /// Escaped and clipped.
  static Html text(std::string_view text, size_t most = kMostText);
  /// Markup or a number that this program wrote.
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
Html section(std::string_view id, std::string_view title, std::string_view remark, Html body);

/// "c3 d0": the classes that give a run its color and dashes.
std::string class_of_run(size_t run);

}  // namespace flow::cli::report
