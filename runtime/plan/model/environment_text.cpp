// Parses and expands `$env(...)` in the values of commands' environments.
#include "runtime/plan/model/environment_text.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"

namespace flow::plan {

std::optional<std::string> EnvironmentPart::value() const {
  if (name.empty()) return text;
  if (const char* found = std::getenv(name.c_str())) return found;
  return fallback;
}

std::optional<EnvironmentPart> read_reference(std::string_view inside) {
  const size_t split = inside.find(":-");
  EnvironmentPart part{.text = {}, .name = std::string(inside.substr(0, split))};
  constexpr size_t kLongestName = 1024;
  if (!is_name(part.name) || part.name.size() > kLongestName) return {};
  if (split != inside.npos) part.fallback = inside.substr(split + 2);
  return part;
}

size_t closing_parenthesis(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return i;
  }
  return text.npos;
}

std::string with_doubled_dollars(std::string_view text) { return join(split(text, '$'), "$$"); }

std::optional<std::vector<EnvironmentPart>> environment_parts(std::string_view text) {
  constexpr std::string_view kBegin = "$env(";
  std::vector<EnvironmentPart> parts;
  std::string plain;
  const auto end_plain = [&] {
    if (!plain.empty()) parts.push_back({.text = std::exchange(plain, {}), .name = {}});
  };
  while (!text.empty()) {
    const size_t dollar = std::min(text.find('$'), text.size());
    plain += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) break;
    if (text.starts_with("$$")) {
      plain += '$';
      text.remove_prefix(2);
      continue;
    }
    const size_t close = closing_parenthesis(text, kBegin.size() - 1);
    if (!text.starts_with(kBegin) || close == text.npos) return {};
    auto part = read_reference(text.substr(kBegin.size(), close - kBegin.size()));
    if (!part) return {};
    end_plain();
    parts.push_back(std::move(*part));
    text.remove_prefix(close + 1);
  }
  end_plain();
  return parts;
}

namespace {

std::vector<EnvironmentPart> checked_parts(std::string_view text) {
  auto parts = environment_parts(text);
  FLOW_CHECK(parts, "unchecked plan");
  return std::move(*parts);
}

}  // namespace

std::optional<std::string> missing_variable(std::string_view text) {
  for (const EnvironmentPart& part : checked_parts(text))
    if (!part.value()) return part.name;
  return {};
}

std::string with_environment(std::string_view text) {
  std::string all;
  for (const EnvironmentPart& part : checked_parts(text)) all += part.value().value_or("");
  return all;
}

}  // namespace flow::plan
