// User-facing errors and warnings: reported where they are found, as many as there are, rendered
// together at the end. Kinds, codes and explanations are listed in diagnostics.def.
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
/// All of diagnostics.def, in its order.
std::span<const DiagnosisInfo> all_diagnoses();
const DiagnosisInfo& info_of(Diagnosis diagnosis);
/// The entry with this code ("E0302", any case), or null.
const DiagnosisInfo* find_diagnosis(std::string_view code);

/// How messages are shown.
struct Layout {
  bool color = false;
  int columns = 100;     // that lines keep to where the user's names allow
  bool objects = false;  // also as JSON
};

enum class Severity { kError, kWarning };

/// One message. Texts are lower case without a full stop, the user's text in backticks.
struct Diag {
  Diagnosis diagnosis;
  Severity severity;
  Span span;
  std::string message;
  std::vector<std::pair<Span, std::string>> labels = {};
  std::vector<std::string> notes = {};
  std::vector<std::string> hints = {};
  Span cause = {};  // caused_by

  /// A second place that matters, shown with its line: "first declared here".
  Diag& label(Span where, std::string text) {
    labels.emplace_back(where, std::move(text));
    return *this;
  }
  /// The value of a variable is the cause.
  Diag& caused_by(Span value, std::string_view variable);
  /// A line below the source: the chain of shapes.
  Diag& with_note(std::string text) {
    notes.push_back(std::move(text));
    return *this;
  }
  /// What to do, or what was probably meant. An empty text adds nothing.
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
  /// Reports an error; the reference lives as long as this.
  Diag& error(Diagnosis diagnosis, Span span, std::string message);
  Diag& warning(Diagnosis diagnosis, Span span, std::string message);
  /// Reports a message made elsewhere.
  Diag& add(Diag diag);
  /// After an error that makes this place unreadable: hides other messages at exactly this span.
  void silence(Span span) { silenced_.insert(key_of(span)); }
  bool is_silenced(Span span) const { return silenced_.contains(key_of(span)); }
  /// Will the user see an error?
  bool has_errors() const { return has_errors_; }
  /// Errors reported so far, duplicates and silenced ones too.
  size_t error_count() const { return errors_; }
  /// The number of errors that the user sees.
  size_t distinct_errors() const;
  bool empty() const { return diags_.empty(); }
  /// By source, line and column, duplicates dropped.
  std::vector<const Diag*> sorted() const;
  /// As sorted(), with one message for all uses of a variable that cause the same message; it names
  /// the other lines.
  std::vector<Diag> folded() const;
  const Sources& sources() const { return *sources_; }
  /// All messages, as folded() has them, each as
  /// "file:line:col: error: text [E0302]", the source line underlined, labels, notes, hints.
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

/// A message for programs. `file`: of a message without a place. The keys are always there:
/// {"severity": "error", "code": "E0302", "file": ..., "line": 3, "column": 9, "end_line": 3,
/// "end_column": 12, "message": ..., "notes": [...], "hints": [...], "related": [{file, line,
/// column, end_line, end_column, message}]}
OrderedJson to_json(const Diag& diag, const Sources& sources, const std::string& file);

/// The same of an error without a place, such as that of a missing file.
OrderedJson unplaced_error(const std::string& file, const std::string& message,
                           const std::string& hint);

/// One message as `Diags::render` shows it.
std::string render(const Diag& diag, const Sources& sources, const Layout& layout = {});

}  // namespace flow
