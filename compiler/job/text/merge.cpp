// Merges files with the files that they include, starting with the innermost ones. Deletions are
// applied first, so that a file can delete a mapping and write another one in the same place.
#include "compiler/job/text/merge.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/text/values.h"
#include "compiler/yaml/parse.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

/// Returns true if a deletion has found its key. Its value was then replaced by one without a
/// position.
bool is_done(const yaml::Entry& deletion) { return !deletion.value.span.valid(); }

bool deletes(const yaml::Entry& entry) {
  return is_deletion(entry) && entry.value.is_scalar() && entry.value.scalar == "true";
}

/// Applies a deletion. `replaced` is true if another value replaces the deleted one.
void delete_key(yaml::Node& base, yaml::Entry deletion, bool replaced) {
  const std::string key = deletion.key.substr(1);
  if (yaml::Node* found = base.find(key)) {
    deletion.value = yaml::scalar_node("true");
    if (replaced)
      *found = {};  // an empty scalar, so nothing is merged with it
    else
      base.erase(key);
  }
  base.erase(deletion.key);
  base.entries.push_back(std::move(deletion));
}

void report(Reader& reader, const yaml::Node& mapping, const yaml::Entry& deletion) {
  const std::string key = deletion.key.substr(1);
  if (!deletes(deletion)) {
    reader
        .error(Diagnosis::kBadDeletion, deletion.value,
               fmt::format("`{}` is {}; expected `true`", deletion.key,
                           deletion.value.is_scalar() ? fmt::format("`{}`", deletion.value.scalar)
                                                      : yaml::name_of(deletion.value.kind)))
        .with_hint("write `true` to delete the key, or remove the line to keep it");
    return;
  }
  std::vector<std::string> keys;
  for (const yaml::Entry& entry : mapping.entries)
    if (!is_deletion(entry) && entry.key != key) keys.push_back(entry.key);
  reader
      .error(Diagnosis::kBadDeletion, deletion.key_span,
             fmt::format(
                 "`{}` deletes nothing; expected `{}` here in an included file or extended job",
                 deletion.key, key))
      .with_hint(suggestion(key, keys));
}

/// Returns the graph of a network, or null if it is empty or a variable.
template <typename Node>
Node* graph_of(Node& network) {
  auto* graph = network.find("graph");
  return graph && !graph->entries.empty() ? graph : nullptr;
}

/// Returns the last entry that is not a deletion, or null.
const yaml::Entry* last_entry(const yaml::Node& graph) {
  const auto found = std::find_if_not(graph.entries.rbegin(), graph.entries.rend(), is_deletion);
  return found == graph.entries.rend() ? nullptr : &*found;
}

/// Returns the position of a graph. A merged graph has the position of its first graph, which
/// identifies the file.
std::pair<int32_t, uint32_t> place_of(const yaml::Node& graph) {
  return {graph.span.source, graph.span.begin};
}

/// Returns the last entry that the file of the graph contains, or the last entry of other files if
/// it contains none.
const yaml::Entry& last_of_file(const yaml::Node& graph) {
  const auto is_of_file = [&](const yaml::Entry& entry) {
    return entry.value.span.source == graph.span.source;
  };
  const auto found = std::find_if(graph.entries.rbegin(), graph.entries.rend(), is_of_file);
  return found == graph.entries.rend() ? graph.entries.back() : *found;
}

// Limits the number of files, which grows exponentially if files include others several times.
constexpr int kMaxFiles = 1000;

class Includer {
 public:
  Includer(Reader& reader, DefaultOutputs& outputs) : reader_(reader), outputs_(outputs) {}

  /// Returns false if a file cannot be read, so that its declarations are unknown.
  bool is_complete() const { return complete_; }

  void run(yaml::Node& file, int32_t source) {
    outputs_.note(file);
    yaml::Node* include = file.find("include");
    if (!include) return;
    const yaml::Node list = std::move(*include);
    file.erase("include");
    complete_ &= reader_.expect(list, yaml::Kind::kList, "`include`");
    if (!list.is_list()) return;
    path_.push_back(reader_.sources[source].name());
    yaml::Node base = yaml::mapping_node({}, file.span);
    for (const yaml::Node& item : list.items) {
      auto included = read(item, directory_of(path_.back()));
      complete_ &= included.has_value();
      if (included) merge(base, std::move(*included));
    }
    path_.pop_back();
    merge(base, std::move(file));
    file = std::move(base);
  }

 private:
  std::optional<yaml::Node> read(const yaml::Node& item, const std::string& directory) {
    const auto written = read_text_of(item);
    if (!written) return {};
    const bool absolute = written->starts_with("/");
    const std::string path =
        fs::path(absolute ? *written : directory + *written).lexically_normal().string();
    if (report_cycle(item, path)) return {};
    if (++files_ > kMaxFiles) {
      if (files_ == kMaxFiles + 1)
        reader_.error(Diagnosis::kBadInclude, item,
                      fmt::format("more than {} included files", kMaxFiles));
      return {};
    }
    std::error_code ignored;
    if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
      reader_.error(Diagnosis::kBadInclude, item, fmt::format("{} is not a file", path));
      return {};
    }
    try {
      flow::File file = flow::File::open_read(path);
      std::string text;
      yaml::read_on(file, text, yaml::kLargestFile + 1);
      return parse(reader_.sources.add(path, std::move(text)));
    } catch (const RunError& error) {
      reader_.error(Diagnosis::kBadInclude, item, error.what())
          .with_hint(absolute ? "" : "write a path relative to the including file");
      return {};
    }
  }

  std::optional<std::string> read_text_of(const yaml::Node& item) {
    auto text = job::read_text(reader_, item, "a path of `include`");
    if (!text || text->find('$') == std::string::npos) return text;
    reader_
        .error(Diagnosis::kBadInclude, item,
               fmt::format("`{}` contains a dollar sign; expected a plain path", *text))
        .with_hint("write the path itself: files are included before variables are known");
    return {};
  }

  /// Reports an error and returns true if the file at `path` is already being read.
  bool report_cycle(const yaml::Node& item, const std::string& path) {
    const auto same = [&](const std::string& open) {
      std::error_code ignored;
      return open == path || fs::equivalent(open, path, ignored);
    };
    const auto from = std::ranges::find_if(path_, same);
    if (from == path_.end()) return false;
    std::vector<std::string> cycle(from, path_.end());
    cycle.push_back(path);
    reader_.error(Diagnosis::kIncludeCycle, item,
                  fmt::format("`{}` includes itself: {}", path, join(cycle, " -> ")));
    return true;
  }

  std::optional<yaml::Node> parse(int32_t source) {
    yaml::Node tree = yaml::parse(reader_.sources, source, reader_.diags);
    if (!tree.is_mapping()) return {};
    run(tree, source);
    // Each file states its own version, which is therefore not merged.
    if (const yaml::Node* version = tree.find("flow"); version && version->scalar != "1")
      reader_.error(Diagnosis::kFlowVersion, *version,
                    "unsupported language version; expected `flow: 1`");
    tree.erase("flow");
    return tree;
  }

  Reader& reader_;
  DefaultOutputs& outputs_;
  // The files that are being read. Each includes the next one.
  std::vector<std::string> path_;
  int files_ = 0;
  bool complete_ = true;
};

}  // namespace

void merge(yaml::Node& base, yaml::Node over) {
  if (!base.is_mapping() || !over.is_mapping()) {
    base = std::move(over);
    return;
  }
  for (const yaml::Entry& entry : over.entries)
    if (deletes(entry)) delete_key(base, entry, over.find(entry.key.substr(1)));
  for (yaml::Entry& entry : over.entries) {
    if (deletes(entry)) continue;
    yaml::Entry* below = base.find_entry(entry.key);
    if (!below) {
      base.entries.push_back(std::move(entry));
      continue;
    }
    below->key_span = entry.key_span;
    merge(below->value, std::move(entry.value));
  }
}

yaml::Entry deletion_of(const std::string& key, Span span) {
  return {"~" + key, span, yaml::scalar_node("true", span)};
}

void finish_deletions(Reader& reader, yaml::Node& node) {
  for (yaml::Node& item : node.items) finish_deletions(reader, item);
  for (yaml::Entry& entry : node.entries) finish_deletions(reader, entry.value);
  for (const yaml::Entry& entry : node.entries)
    if (is_deletion(entry) && !is_done(entry)) report(reader, node, entry);
  std::erase_if(node.entries, is_deletion);
}

void DefaultOutputs::note(const yaml::Node& file) {
  const yaml::Node* networks = file.find("networks");
  if (!networks) return;
  for (const yaml::Entry& network : networks->entries)
    if (const yaml::Node* graph = graph_of(network.value))
      if (const yaml::Entry* last = last_entry(*graph))
        last_[place_of(*graph)] = {last->key, last->key_span};
}

void DefaultOutputs::write(Reader& reader, yaml::Node& file) const {
  if (yaml::Node* networks = file.find("networks"))
    for (yaml::Entry& network : networks->entries) write_output(reader, network);
}

void DefaultOutputs::write_output(Reader& reader, yaml::Entry& network) const {
  const yaml::Node* graph = graph_of(network.value);
  if (!graph || network.value.find("output")) return;
  const auto known = last_.find(place_of(*graph));
  if (known == last_.end()) return;
  const Name& first = known->second;
  const yaml::Entry& last = graph->entries.back();
  if (last.key == first.text) return;
  const bool kept = graph->find(first.text) != nullptr;
  const std::string output = kept ? first.text : last_of_file(*graph).key;
  if (kept)
    reader.diags
        .warning(Diagnosis::kDefaultOutput, last.key_span,
                 fmt::format("`{}` is added to network `{}`, but the network still returns `{}`",
                             last.key, network.key, output))
        .label(first.span, "last entry of the file that begins the graph")
        .with_hint(
            fmt::format("write `output: {}` or `output: {}` in the network", output, last.key));
  else
    reader.diags
        .warning(Diagnosis::kDefaultOutput, network.key_span,
                 fmt::format("network `{}` returns `{}`, because its last entry `{}` is deleted",
                             network.key, output, first.text))
        .label(first.span, "the deleted entry")
        .with_hint(fmt::format("write `output: {}` in the network", output));
  network.value.entries.push_back({"output", first.span, yaml::scalar_node(output, first.span)});
}

std::string directory_of(std::string_view path) {
  if (is_descriptor(path)) return {};
  const size_t slash = path.rfind('/');
  return std::string(path.substr(0, slash == std::string_view::npos ? 0 : slash + 1));
}

bool include_files(Reader& reader, yaml::Node& file, DefaultOutputs& outputs) {
  Includer includer(reader, outputs);
  includer.run(file, reader.file);
  return includer.is_complete();
}

}  // namespace flow::job
