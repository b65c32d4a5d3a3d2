// Implements the list of messages, their collection, and their rendering: the header, the
// underlined source lines, notes, hints.
#include "compiler/diag/diag.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/base/display.h"
#include "runtime/base/text.h"

namespace flow {
namespace {

constexpr DiagnosisInfo kInfos[] = {
#define FLOW_DIAGNOSTIC(kind, code, title, explanation) {#kind, code, title, explanation},
#include "compiler/diag/diagnostics.def"
#undef FLOW_DIAGNOSTIC
};

/// Returns a text such as "job.yaml:38, 39, 57, or.yaml:12", which contains each line once, except
/// that of `first`.
std::string lines_of(const std::vector<Span>& places, Span first, const Sources& sources) {
  std::string text;
  int32_t named = -1;  // the source that was named last
  auto last = std::pair(first.source, sources[first.source].position(first.begin).line);
  for (const Span& place : places) {
    const auto at = std::pair(place.source, sources[place.source].position(place.begin).line);
    if (at == last) continue;
    text += text.empty() ? "" : ", ";
    if (at.first != named) text += sources[at.first].name() + ":";
    text += std::to_string(at.second);
    named = at.first;
    last = at;
  }
  return text;
}

auto order_of(const Diag& diag) {
  return std::tie(diag.span.source, diag.span.begin, diag.span.end, diag.severity, diag.diagnosis,
                  diag.message);
}

constexpr int kGutter = 5;  // the width of line numbers, in columns
constexpr int kTab = 4;     // tabs are expanded to the next multiple of this
// The largest number of columns to the left of the underlined text in a cut line.
constexpr int kLeadIn = 30;
constexpr std::string_view kCut = "...";

enum class Style { kPlain, kStrong, kError, kWarning, kFrame, kHint };

class Painter {
 public:
  explicit Painter(const Layout& layout) : layout_(layout) {}
  int columns() const { return layout_.columns; }
  std::string operator()(Style style, std::string_view text) const {
    if (!layout_.color || style == Style::kPlain || text.empty()) return std::string(text);
    return fmt::format("\x1b[{}m{}\x1b[0m", code(style), text);
  }

 private:
  static std::string_view code(Style style) {
    constexpr std::string_view kCodes[] = {"0", "1", "1;31", "1;35", "34", "1;36"};
    return kCodes[static_cast<size_t>(style)];
  }

  Layout layout_;
};

/// A source line as displayed, and its underlined columns.
struct Excerpt {
  std::string text;
  int begin = 0, end = 0;
};

/// A character of a line: its displayed text, and the column where it begins.
struct Cell {
  std::string shown;
  int column = 0, width = 0;
};

std::vector<Cell> cells_of(std::string_view line, size_t begin, size_t end, Excerpt* excerpt) {
  std::vector<Cell> cells;
  int column = 0;
  for (size_t at = 0; at < line.size();) {
    const Character character = character_at(line, at);
    if (at <= begin) excerpt->begin = column;
    Cell cell = {std::string(line.substr(at, character.bytes)), column, width_of(character)};
    if (line[at] == '\t') {
      cell.width = kTab - column % kTab;
      cell.shown.assign(static_cast<size_t>(cell.width), ' ');
    } else if (is_unprintable(character)) {
      cell.shown = "\uFFFD";
      cell.width = 1;
    }
    column += cell.width;
    if (at < end) excerpt->end = column;
    at += character.bytes;
    cells.push_back(std::move(cell));
  }
  if (begin >= line.size()) excerpt->begin = column;
  excerpt->end = std::max(excerpt->end, excerpt->begin + 1);
  return cells;
}

/// Returns the offset of the character that contains the byte at `offset`.
size_t first_character(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  while (offset > 0 && offset < text.size() && (text[offset] & 0xC0) == 0x80) --offset;
  return offset;
}

/// Writes the columns [from, to) of the cells to `excerpt`, with a mark on each side where text is
/// cut off.
void cut(const std::vector<Cell>& cells, int from, int to, Excerpt* excerpt) {
  const int lead = from > 0 ? static_cast<int>(kCut.size()) : 0;
  int column = 0;  // displayed so far, without the mark
  excerpt->text.assign(kCut.substr(0, static_cast<size_t>(lead)));
  for (const Cell& cell : cells) {
    if (cell.column < from || cell.column + cell.width > to) continue;
    // A wide character may begin after the cut.
    if (column == 0) from = cell.column;
    excerpt->text += cell.shown;
    column += cell.width;
  }
  if (!cells.empty() && cells.back().column + cells.back().width > to) excerpt->text += kCut;
  excerpt->begin = std::max(excerpt->begin - from, 0) + lead;
  const int first = excerpt->begin - lead;
  excerpt->end = std::clamp(excerpt->end - from, first + 1, std::max(column, first + 1)) + lead;
}

/// The largest number of bytes of a line that are examined on either side of the beginning of the
/// underlined text.
constexpr size_t kNearby = 1000;

Excerpt excerpt_of(const Source& source, Span span, int line_number, int columns) {
  std::string_view line = source.line(line_number);
  const uint32_t start = source.line_start(line_number);
  // A span of several lines is underlined up to the end of its first line.
  size_t begin = std::min<size_t>(std::max(span.begin, start) - start, line.size());
  size_t end = std::min<size_t>(std::max(span.end, start) - start, line.size());
  while (end > begin && (line[end - 1] == ' ' || line[end - 1] == '\t')) --end;
  if (begin > kNearby) {
    const size_t skipped = first_character(line, begin - kNearby);
    line.remove_prefix(skipped);
    begin -= skipped;
    end -= skipped;
  }
  line = line.substr(0, first_character(line, begin + kNearby));
  end = std::min(end, line.size());

  Excerpt excerpt;
  const std::vector<Cell> cells = cells_of(line, begin, end, &excerpt);
  const int width = cells.empty() ? 0 : cells.back().column + cells.back().width;
  int from = 0;
  if (width > columns && excerpt.end > columns - static_cast<int>(kCut.size()))
    from = std::min(std::max(excerpt.begin - std::min(kLeadIn, columns / 3), 0),
                    width - columns + static_cast<int>(kCut.size()));
  const int marks = static_cast<int>(kCut.size()) * (from > 0 ? 1 : 0);
  int to = from + columns - marks;
  if (to < width) to -= static_cast<int>(kCut.size());
  cut(cells, from, to, &excerpt);
  return excerpt;
}

/// Returns the two lines that show a place: the source line and the underline.
std::string show_line(const Sources& sources, Span span, char underline, Style style,
                      const Painter& paint) {
  const Source& source = sources[span.source];
  const int number = source.position(span.begin).line;
  const int gutter = std::max(kGutter, static_cast<int>(fmt::formatted_size("{}", number)));
  const Excerpt excerpt = excerpt_of(source, span, number, paint.columns() - gutter - 3);
  std::string first = fmt::format(
      "{} {}", paint(Style::kFrame, fmt::format("{:>{}} |", number, gutter)), excerpt.text);
  first.erase(first.find_last_not_of(' ') + 1);
  return fmt::format(
      "{}\n{} {}{}\n", first, paint(Style::kFrame, fmt::format("{:>{}} |", "", gutter)),
      std::string(static_cast<size_t>(excerpt.begin), ' '),
      paint(style, std::string(static_cast<size_t>(excerpt.end - excerpt.begin), underline)));
}

/// Breaks `text` into indented lines at spaces. The first line begins with `prefix`, which is
/// highlighted.
std::string paragraph(std::string_view prefix, std::string_view text, const Painter& paint) {
  constexpr int kIndent = 3;
  std::string out(kIndent, ' ');
  out += paint(Style::kHint, prefix);
  int column = kIndent + width_of(prefix);
  bool first_word = true;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = escaped(text.substr(at, end - at));
    if (!first_word && column + 1 + width_of(word) > paint.columns()) {
      out += '\n' + std::string(kIndent + 3, ' ');
      column = kIndent + 3;
    } else if (!first_word) {
      out += ' ';
      ++column;
    }
    out += word;
    column += width_of(word);
    first_word = false;
    at = end + 1;
  }
  return out + '\n';
}

/// Returns the JSON keys of the place. All of them except the file are null if the span is invalid.
OrderedJson place_of(Span span, const Sources& sources, const std::string& file) {
  OrderedJson place{{"file", file}};
  for (const char* key : {"line", "column", "end_line", "end_column"}) place[key] = nullptr;
  if (!span.valid()) return place;
  const Source& source = sources[span.source];
  const Position begin = source.position(span.begin), end = source.position(span.end);
  place["file"] = source.name();
  place["line"] = begin.line;
  place["column"] = begin.column;
  place["end_line"] = end.line;
  place["end_column"] = end.column;
  return place;
}

OrderedJson object_of(OrderedJson code, const OrderedJson& place, const std::string& message,
                      const std::vector<std::string>& notes,
                      const std::vector<std::string>& hints) {
  OrderedJson object{{"severity", "error"}, {"code", std::move(code)}};
  object.update(place);
  object["message"] = message;
  object["notes"] = notes;
  object["hints"] = hints;
  object["related"] = OrderedJson::array();
  return object;
}

}  // namespace

std::span<const DiagnosisInfo> all_diagnoses() { return kInfos; }

const DiagnosisInfo& info_of(Diagnosis diagnosis) { return kInfos[static_cast<size_t>(diagnosis)]; }

const DiagnosisInfo* find_diagnosis(std::string_view code) {
  for (const DiagnosisInfo& info : kInfos)
    if (same_but_for_case(info.code, code) || (code.size() >= 3 && info.code.ends_with(code)))
      return &info;
  return nullptr;
}

Diag& Diag::caused_by(Span value, std::string_view variable) {
  cause = value;
  return label(value, fmt::format("`{}` is set here", variable));
}

Diag& Diags::add(Diag diag) {
  const bool seen = !is_silenced(diag.span);
  if (diag.severity == Severity::kError) {
    ++errors_;
    has_errors_ |= seen;
  }
  return (seen ? diags_ : unseen_).emplace_back(std::move(diag));
}

Diag& Diags::error(Diagnosis diagnosis, Span span, std::string message) {
  return add({diagnosis, Severity::kError, span, std::move(message)});
}

Diag& Diags::warning(Diagnosis diagnosis, Span span, std::string message) {
  return add({diagnosis, Severity::kWarning, span, std::move(message)});
}

std::vector<const Diag*> Diags::sorted() const {
  std::vector<const Diag*> sorted;
  for (const Diag& diag : diags_) sorted.push_back(&diag);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Diag* a, const Diag* b) { return order_of(*a) < order_of(*b); });
  const auto repeated = std::unique(sorted.begin(), sorted.end(), [](const Diag* a, const Diag* b) {
    return order_of(*a) == order_of(*b);
  });
  sorted.erase(repeated, sorted.end());
  return sorted;
}

std::vector<Diag> Diags::folded() const {
  std::vector<Diag> folded;
  std::map<std::tuple<Key, Diagnosis, std::string>, size_t> first;  // by cause
  std::map<size_t, std::vector<Span>> others;                       // by index of the first message
  for (const Diag* diag : sorted()) {
    if (diag->cause.valid()) {
      const auto [known, is_new] =
          first.try_emplace({key_of(diag->cause), diag->diagnosis, diag->message}, folded.size());
      if (!is_new) {
        others[known->second].push_back(diag->span);
        continue;
      }
    }
    folded.push_back(*diag);
  }
  for (const auto& [at, places] : others)
    if (const std::string lines = lines_of(places, folded[at].span, *sources_); !lines.empty())
      folded[at].with_note("also at " + lines);
  return folded;
}

size_t Diags::distinct_errors() const {
  const auto shown = folded();
  return static_cast<size_t>(std::ranges::count(shown, Severity::kError, &Diag::severity));
}

std::string Diags::render(const Layout& layout) const {
  constexpr size_t kMost = 1000;
  const auto shown = folded();
  std::string text;
  for (const Diag& diag : std::span(shown).first(std::min(shown.size(), kMost)))
    text += flow::render(diag, *sources_, layout);
  if (shown.size() > kMost) text += fmt::format("and {} more\n", shown.size() - kMost);
  return text;
}

OrderedJson unplaced_error(const std::string& file, const std::string& message,
                           const std::string& hint) {
  return object_of(nullptr, place_of({}, {}, file), message, {},
                   hint.empty() ? std::vector<std::string>() : std::vector{hint});
}

OrderedJson to_json(const Diag& diag, const Sources& sources, const std::string& file) {
  OrderedJson object = object_of(info_of(diag.diagnosis).code, place_of(diag.span, sources, file),
                                 diag.message, diag.notes, diag.hints);
  if (diag.severity == Severity::kWarning) object["severity"] = "warning";
  for (const auto& [span, text] : diag.labels) {
    OrderedJson related = place_of(span, sources, file);
    related["message"] = text;
    object["related"].push_back(std::move(related));
  }
  return object;
}

std::string render(const Diag& diag, const Sources& sources, const Layout& layout) {
  const Painter paint(layout);
  const bool is_error = diag.severity == Severity::kError;
  const Style style = is_error ? Style::kError : Style::kWarning;
  const std::string where = escaped(sources.where(diag.span));
  std::string out =
      fmt::format("{}{} {} [{}]\n", paint(Style::kStrong, where.empty() ? "" : where + ": "),
                  paint(style, is_error ? "error:" : "warning:"),
                  paint(Style::kStrong, escaped(diag.message)), info_of(diag.diagnosis).code);
  if (diag.span.valid()) out += show_line(sources, diag.span, '^', style, paint);
  for (const auto& [span, text] : diag.labels) {
    if (!span.valid()) continue;
    out += paragraph("", sources.where(span) + ": " + text, paint);
    out += show_line(sources, span, '-', Style::kFrame, paint);
  }
  for (const std::string& note : diag.notes) out += paragraph("", note, paint);
  for (const std::string& hint : diag.hints) out += paragraph("hint: ", hint, paint);
  return out;
}

}  // namespace flow
