// Declares user-facing errors and warnings. They are reported where they are found, without a
// limit, and rendered together at the end. Their kinds, codes and explanations are in
// diagnostics.def.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/source/source.h"
#include "runtime/plan/json/json.h"

namespace flow {

enum class Diagnosis {
#define FLOW_DIAGNOSTIC(kind, code, title, explanation) kind,
#include "compiler/diag/diagnostics.def"
#undef FLOW_DIAGNOSTIC
};

struct DiagnosisInfo {
  std::string_view kind, code, title, explanation;
};
/// All entries of diagnostics.def, in order.
std::span<const DiagnosisInfo> all_diagnoses();
const DiagnosisInfo& info_of(Diagnosis diagnosis);
/// Returns the entry with this code ("E0302", in any case), or null.
const DiagnosisInfo* find_diagnosis(std::string_view code);

/// The format of messages.
struct Layout {
  bool color = false;
  // The maximal line width; names from the file may exceed it.
  int columns = 100;
  bool objects = false;  // also as JSON
};

enum class Severity { kError, kWarning };

/// One message. Its texts are lower case without a final period, with text of the user in
/// backticks.
struct Diag {
  Diagnosis diagnosis;
  Severity severity;
  Span span;
  std::string message;
  std::vector<std::pair<Span, std::string>> labels = {};
  std::vector<std::string> notes = {};
  std::vector<std::string> hints = {};
  Span cause = {};  // set by caused_by()

  /// Adds another relevant place, shown with its line, such as "first declared here".
  Diag& label(Span where, std::string text) {
    labels.emplace_back(where, std::move(text));
    return *this;
  }
  /// Marks the value of a variable as the cause.
  Diag& caused_by(Span value, std::string_view variable);
  /// Adds a line below the source, such as the chain of shapes.
  Diag& with_note(std::string text) {
    notes.push_back(std::move(text));
    return *this;
  }
  /// Adds advice, or the text that was probably intended. An empty text adds nothing.
  Diag& with_hint(std::string text) {
    if (!text.empty()) hints.push_back(std::move(text));
    return *this;
  }
  template <typename... Args>
  requires(sizeof...(Args) > 0) Diag& with_hint(fmt::format_string<Args...> format,
                                                Args&&... args) {
    return with_hint(fmt::format(format, std::forward<Args>(args)...));
  }
};

class Diags {
 public:
  explicit Diags(const Sources& sources) : sources_(&sources) {}
  /// Reports an error. The reference remains valid as long as this object exists.
  Diag& error(Diagnosis diagnosis, Span span, std::string message);
  Diag& warning(Diagnosis diagnosis, Span span, std::string message);
  /// Adds a message that was made elsewhere.
  Diag& add(Diag diag);
  /// Hides all other messages at exactly this span, because an earlier error has made the place
  /// unreadable.
  void silence(Span span) { silenced_.insert(key_of(span)); }
  bool is_silenced(Span span) const { return silenced_.contains(key_of(span)); }
  /// Returns true if the user will see an error.
  bool has_errors() const { return has_errors_; }
  /// The number of errors so far, including duplicates and hidden ones.
  size_t error_count() const { return errors_; }
  /// The number of errors that the user sees.
  size_t distinct_errors() const;
  bool empty() const { return diags_.empty(); }
  /// Returns the messages ordered by source, line and column, without duplicates.
  std::vector<const Diag*> sorted() const;
  /// Returns the messages of sorted(), but merges equal messages that uses of the same variable
  /// cause. The merged message lists the other lines.
  std::vector<Diag> folded() const;
  const Sources& sources() const { return *sources_; }
  /// Renders all messages of folded(), each as "file:line:col: error: text [E0302]" followed by the
  /// underlined source line, labels, notes and hints.
  std::string render(const Layout& layout = {}) const;

 private:
  const Sources* sources_;
  std::deque<Diag> diags_;
  using Key = std::tuple<int32_t, uint32_t, uint32_t>;
  static Key key_of(Span span) { return {span.source, span.begin, span.end}; }

  std::set<Key> silenced_;
  std::deque<Diag> unseen_;  // reported at silenced places
  size_t errors_ = 0;
  bool has_errors_ = false;
};

/// Returns a message in a form for programs. `file` is used for messages without a place. All keys
/// are always present: {"severity": "error", "code": "E0302", "file": ..., "line": 3, "column": 9,
/// "end_line": 3, "end_column": 12, "message": ..., "notes": [...], "hints": [...], "related":
/// [{file, line, column, end_line, end_column, message}]}
OrderedJson to_json(const Diag& diag, const Sources& sources, const std::string& file);

/// Returns an error without a place in the same form, such as that of a missing file.
OrderedJson unplaced_error(const std::string& file, const std::string& message,
                           const std::string& hint);

/// Renders one message in the same way as `Diags::render`.
std::string render(const Diag& diag, const Sources& sources, const Layout& layout = {});

}  // namespace flow
