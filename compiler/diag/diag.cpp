// The list of messages, and collecting them.
#include "compiler/diag/diag.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/base/text.h"

namespace flow {
namespace {

constexpr DiagnosisInfo kInfos[] = {
#define FLOW_DIAGNOSTIC(kind, code, title, explanation) {#kind, code, title, explanation},
#include "compiler/diag/diagnostics.def"
#undef FLOW_DIAGNOSTIC
};

/// "job.yaml:38, 39, 57, or.yaml:12": each line once, and not that of `first`.
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
  std::map<std::tuple<Key, Diagnosis, std::string>, size_t> first;  // of each cause
  std::map<size_t, std::vector<Span>> others;                       // by the first one
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

}  // namespace flow
