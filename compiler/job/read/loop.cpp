// `loop:` - results that the next pass reads.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"

namespace flow::job {
namespace {

/// What a rule for names calls `from` is a key here.
std::string of_key(std::string text) {
  constexpr std::string_view kFrom = "`from`";
  if (const size_t at = text.find(kFrom); at != std::string::npos)
    text.replace(at, kFrom.size(), "the key");
  return text;
}

/// The patterns of an item; nothing after an error.
std::optional<Fed> read_item(Reader& reader, const yaml::Entry& entry, std::string_view key) {
  const auto text = read_text(reader, entry.value, fmt::format("`{}`", entry.key));
  if (!text) return {};
  Fed made{{entry.key, entry.key_span}, {*text, entry.value.span}, {}, {}};
  plan::Wildcards wildcards;
  plan::NamePatternError error;
  const auto targets = plan::parse_pattern(entry.key, wildcards, error);
  const auto results = targets ? plan::parse_template(*text, wildcards, error) : std::nullopt;
  if (!results) {
    reader
        .error(Diagnosis::kLoop, targets ? entry.value.span : entry.key_span,
               fmt::format("`{}`: {}", key, of_key(error.message)))
        .with_hint(of_key(error.hint));
    return {};
  }
  made.targets = *targets;
  made.results = *results;
  return made;
}

std::vector<Fed> read_items(Reader& reader, const yaml::Node& node, std::string_view key) {
  std::vector<Fed> items;
  if (!reader.expect(node, yaml::Kind::kMapping, fmt::format("`{}`", key),
                     "write `{INPUT: RESULT}`"))
    return items;
  for (const yaml::Entry& entry : node.entries)
    if (!reader.take_note(entry))
      if (auto item = read_item(reader, entry, key)) items.push_back(*std::move(item));
  return items;
}

void check_job(Reader& reader, Span key, const Job& job) {
  if (job.train)
    reader.error(Diagnosis::kLoop, key, "unexpected `loop` in a train job; only predict jobs loop")
        .with_hint("for a recurrence that is trained, use `lstm`, `gru` or `rnn`");
  if (job.shards > 1)
    reader
        .error(Diagnosis::kLoop, key,
               fmt::format("a loop does not support shards; found {}", job.shards))
        .with_hint("remove `shards`, and use one device");
}

}  // namespace

std::optional<Loop> read_loop(Reader& reader, const yaml::Node& node, Span key, const Job& job) {
  const size_t before = reader.diags.error_count();
  const Fields fields(reader, node, key, loop_section());
  check_job(reader, key, job);
  Loop loop;
  loop.span = key;
  if (const yaml::Node* feed = fields.require("feed")) {
    loop.feed = read_items(reader, *feed, "feed");
    if (feed->is_mapping() && feed->entries.empty())
      reader.error(Diagnosis::kLoop, *feed, "`feed` is empty; expected results by input or entry");
  }
  if (const yaml::Node* first = fields.find("first"))
    loop.first = read_items(reader, *first, "first");
  loop.steps = fields.integer("steps").value_or(1);
  if (const yaml::Node* until = fields.find("until"))
    if (const auto text = fields.text("until")) loop.until = {*text, until->span};
  if (const yaml::Node* last = fields.find("last"))
    loop.last = read_globs(reader, *last, "`last`").value_or(std::vector<Name>());
  if (reader.diags.error_count() > before) return {};
  return loop;
}

}  // namespace flow::job
