// Fills in the fragments of page/fragments.html.
#include "cli/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/shared/reports.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace flow::cli::report {
namespace {

/// Reads the fragments. Each follows a line `<!-- NAME -->`.
std::map<std::string_view, std::string_view> read_fragments() {
  constexpr std::string_view kBegin = "\n<!-- ", kEnd = " -->\n";
  std::map<std::string_view, std::string_view> fragments;
  const std::string_view text = page::kFragments;
  for (size_t at = text.find(kBegin); at != text.npos;) {
    const size_t name = at + kBegin.size(), name_end = text.find(kEnd, name);
    FLOW_CHECK(name_end != text.npos, "a comment of fragments.html does not end");
    const size_t body = name_end + kEnd.size();
    at = text.find(kBegin, body - 1);
    fragments[text.substr(name, name_end - name)] =
        text.substr(body, (at == text.npos ? text.size() : at + 1) - body);
  }
  return fragments;
}

std::string_view find_fragment(std::string_view name) {
  static const std::map<std::string_view, std::string_view> kFragments = read_fragments();
  const auto found = kFragments.find(name);
  FLOW_CHECK(found != kFragments.end(), "fragments.html has no {}", name);
  return found->second;
}

}  // namespace

std::string clipped(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = 0;
  while (end < text.size()) {
    const size_t next = end + character_at(text, end).bytes;
    if (next > most) break;
    end = next;
  }
  return std::string(text.substr(0, end)) + "…";
}

Html Html::text(std::string_view text, size_t most) { return trusted(xml(clipped(text, most))); }

Html Html::trusted(std::string markup) {
  Html html;
  html.markup_ = std::move(markup);
  return html;
}

Html fragment(std::string_view name, const Values& values) {
  std::string out;
  std::string_view rest = find_fragment(name);
  for (size_t open = rest.find("{{"); open != rest.npos; open = rest.find("{{")) {
    const size_t close = rest.find("}}", open);
    FLOW_CHECK(close != rest.npos, "a name of {} does not end", name);
    const std::string_view key = rest.substr(open + 2, close - open - 2);
    out += rest.substr(0, open);
    const Html* found = nullptr;
    for (const auto& [each, value] : values)
      if (each == key) found = &value;
    FLOW_CHECK(found, "{} needs a value of {}", name, key);
    out += found->str();
    rest.remove_prefix(close + 2);
  }
  return Html::trusted(out + std::string(rest));
}

std::string class_of_run(size_t run) {
  constexpr size_t kColors = 8, kDashes = 4;
  return fmt::format("c{} d{}", run % kColors, run / kColors % kDashes);
}

Html section(std::string_view id, std::string_view title, const std::string& remark, Html body) {
  return fragment("section",
                  {{"id", id}, {"title", title}, {"remark", remark}, {"body", std::move(body)}});
}

}  // namespace flow::cli::report
