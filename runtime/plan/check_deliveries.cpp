// What leaves a job: its return, hooks and their sinks.
#include <cmath>
#include <set>

#include "runtime/plan/check_job.h"
#include "runtime/plan/names.h"

namespace flow::plan {
namespace {

/// Exactly one conversion of a double, two digits at most for width and precision: it is given to
/// printf with a double and nothing else.
bool is_print_format(std::string_view text) {
  const auto skip = [&text](std::string_view characters, size_t most) {
    size_t count = 0;
    while (count < text.size() && characters.find(text[count]) != characters.npos) ++count;
    text.remove_prefix(count);
    return count <= most;
  };
  constexpr std::string_view kDigits = "0123456789";
  constexpr size_t kAny = std::string_view::npos;
  int conversions = 0;
  if (text.find('\0') != text.npos) return false;
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c != '%') continue;
    if (text.starts_with('%')) {
      text.remove_prefix(1);
      continue;
    }
    skip("-+ #0", kAny);
    if (!skip(kDigits, 2)) return false;
    if (text.starts_with('.')) {
      text.remove_prefix(1);
      if (!skip(kDigits, 2)) return false;
    }
    if (text.empty() || std::string_view("eEfFgG").find(text.front()) == std::string_view::npos)
      return false;
    text.remove_prefix(1);
    ++conversions;
  }
  return conversions == 1;
}

void check_sinks(const std::vector<Sink>& sinks, const Site& site) {
  for (const Sink& sink : sinks) {
    const auto* print = std::get_if<PrintSink>(&sink);
    if (!print) continue;
    site.require(std::isfinite(print->scale), "a print sink scales by {}", print->scale);
    site.require(print->every >= 1, "a print sink prints every {}", print->every);
    site.require(print->format == "numpy" || is_print_format(print->format),
                 "the print format `{}` formats no number", print->format);
  }
}

void check_return_value(const ReturnValue& value, const Site& site) {
  using Kind = ReturnValue::Kind;
  site.require((value.kind == Kind::kNumpy) == value.items.empty(),
               "a returned array holds nothing, all else does");
  site.require(value.keys.size() == (value.kind == Kind::kDict ? value.items.size() : 0),
               "{} keys for {} returned values", value.keys.size(), value.items.size());
  std::set<std::string_view> keys;
  for (const std::string& key : value.keys) {
    site.require(is_safe_key(key), "the returned key `{}` cannot name a folder", key);
    site.require(keys.insert(key).second, "the returned key `{}` stands twice", key);
  }
  for (const ReturnValue& item : value.items) check_return_value(item, site);
}

void check_hook(const Job& job, const Hook& hook, const Site& site) {
  site.require(is_safe_name(hook.name), "this cannot be a name");
  site.require(job.train || hook.kind == Hook::Kind::kWatch, "gradients in a predict job");
  site.require(std::isfinite(hook.factor), "a factor of {}", hook.factor);
  site.require(hook.factor == 1 || is_float(job[hook.tensor].dtype), "a factor of {} for {}",
               hook.factor, name_of(job[hook.tensor].dtype));
  site.require(!hook.steps.empty(), "it never fires");
  for (const StepRange& range : hook.steps)
    site.require(0 <= range.first && range.first < range.end && range.stride >= 1,
                 "steps {}..{}/{}", range.first, range.end, range.stride);
  check_sinks(hook.sinks, site);
}

/// Two hooks must not write one file.
void check_outputs(const Job& job, const Site& site) {
  std::set<std::pair<Hook::Kind, std::string_view>> writers;
  for (const Hook& hook : job.hooks) {
    size_t files = 0;
    for (const Sink& sink : hook.sinks) files += std::holds_alternative<NpySink>(sink) ? 1 : 0;
    if (files == 0) continue;
    site.at("hook", hook.name)
        .require(writers.emplace(hook.kind, hook.name).second, "another hook writes this too");
  }
}

}  // namespace

void check_deliveries(const Job& job, const Site& site) {
  if (job.returns) {
    const Site here = site.at("return", job.returns->type);
    check_return_value(job.returns->value, here);
    check_sinks(job.returns->sinks, here);
  }
  for (const Hook& hook : job.hooks) check_hook(job, hook, site.at("hook", hook.name));
  check_outputs(job, site);
}

}  // namespace flow::plan
