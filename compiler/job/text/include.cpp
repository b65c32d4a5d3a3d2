// Files that include files, merged from the innermost out.
#include "compiler/job/text/include.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/text/merge.h"
#include "compiler/job/text/values.h"
#include "compiler/yaml/text_check.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

// Files that include others several times grow exponentially.
constexpr int kMaxFiles = 1000;

class Includer {
 public:
  Includer(Reader& reader, DefaultOutputs& outputs) : reader_(reader), outputs_(outputs) {}

  /// False when a file cannot be read: what it would declare is then unknown.
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

  /// Is the file at `path` being read already? That is an error.
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
    // The version is a statement of each file about itself.
    if (const yaml::Node* version = tree.find("flow"); version && version->scalar != "1")
      reader_.error(Diagnosis::kFlowVersion, *version,
                    "unsupported language version; expected `flow: 1`");
    tree.erase("flow");
    return tree;
  }

  Reader& reader_;
  DefaultOutputs& outputs_;
  std::vector<std::string> path_;  // of files, each included by the one before
  int files_ = 0;
  bool complete_ = true;
};

}  // namespace

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
