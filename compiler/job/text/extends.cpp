// Extends jobs. Each job is extended once, after the job that it extends.
#include "compiler/job/text/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>

#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

constexpr std::array<std::string_view, 6> kTakenOver = {"placement",   "shards", "precision",
                                                        "determinism", "inputs", "graph"};
constexpr size_t kMostJobs = 64;        // in a chain of extended jobs
constexpr size_t kMostNodes = 200'000;  // copied nodes

/// Returns a copy without notes and deletions, because these belong to the original job.
yaml::Node copy_of(const yaml::Node& node, size_t& nodes) {
  yaml::Node copy;
  copy.kind = node.kind;
  copy.span = node.span;
  copy.scalar = node.scalar;
  copy.quoted = node.quoted;
  copy.resolved = node.resolved;
  ++nodes;
  for (const yaml::Node& item : node.items) copy.items.push_back(copy_of(item, nodes));
  for (const yaml::Entry& entry : node.entries)
    if (entry.key != "note" && !is_deletion(entry))
      copy.entries.push_back({entry.key, entry.key_span, copy_of(entry.value, nodes), entry.place});
  return copy;
}

/// Sets the places of entries. Entries of the extended graph come first and keep their places. The
/// entries after them are added ones and have no place.
void set_places(const yaml::Node& extended, yaml::Node& graph) {
  auto next = extended.entries.begin();
  for (yaml::Entry& entry : graph.entries) {
    const auto below = std::find_if(next, extended.entries.end(), [&](const yaml::Entry& other) {
      return other.key == entry.key;
    });
    const bool added = below == extended.entries.end();
    entry.place = added ? Span{} : below->place.value_or(below->key_span);
    if (!added) next = below + 1;
  }
}

class Extender {
 public:
  Extender(Reader& reader, yaml::Node& jobs) : reader_(reader), jobs_(jobs) {}

  void run() {
    for (yaml::Entry& job : jobs_.entries) extend(job);
  }

 private:
  void extend(yaml::Entry& job) {
    const yaml::Node* extends = job.value.find("extends");
    if (!extends) return;
    open_.push_back(job.key);
    yaml::Entry* other = find_other(*extends);
    if (other) extend(*other);
    if (other && !failed_.contains(other->key) && may_copy(job.value))
      take_over(other->value, job.value);
    else
      give_up(job);
    open_.pop_back();
    job.value.erase("extends");
  }

  /// Silences the job, because missing keys and unknown names may come from the other job.
  void give_up(yaml::Entry& job) {
    failed_.insert(job.key);
    reader_.diags.silence(job.key_span);
    std::erase_if(job.value.entries, [](const yaml::Entry& entry) { return entry.key != "type"; });
  }

  /// Returns the job that is extended, or null after an error.
  yaml::Entry* find_other(const yaml::Node& extends) {
    const auto name = read_text(reader_, extends, "`extends`");
    if (!name) return nullptr;
    if (name->find('$') != std::string::npos) {
      error(extends, fmt::format("`extends` is `{}`; expected the name of a job", *name))
          .with_hint("write the name itself: jobs are extended before variables are known");
      return nullptr;
    }
    yaml::Entry* other = jobs_.find_entry(*name);
    if (!other || is_deletion(*other) || *name == "note") {
      reader_.error(Diagnosis::kUnknownJob, extends, fmt::format("unknown job `{}`", *name))
          .with_hint(suggestion(*name, names(), "available jobs:"));
      return nullptr;
    }
    return may_extend(extends, *other) ? other : nullptr;
  }

  bool may_extend(const yaml::Node& extends, const yaml::Entry& other) {
    if (const auto from = std::ranges::find(open_, other.key); from != open_.end()) {
      std::vector<std::string> cycle(from, open_.end());
      cycle.push_back(other.key);
      error(extends, fmt::format("job `{}` extends itself: {}", other.key, join(cycle, " -> ")))
          .with_hint("write `inputs` and `graph` in one of these jobs");
      return false;
    }
    if (other.value.is_scalar()) {
      error(extends,
            fmt::format("job `{}` is `{}`; expected a mapping", other.key, other.value.scalar))
          .label(other.value.span, "defined here");
      return false;
    }
    if (open_.size() < kMostJobs) return true;
    reader_.error(Diagnosis::kNesting, extends,
                  fmt::format("jobs extend each other more than {} levels deep", kMostJobs));
    return false;
  }

  void take_over(const yaml::Node& other, yaml::Node& job) {
    yaml::Node merged = yaml::mapping_node({}, job.span);
    for (const yaml::Entry& entry : other.entries) {
      if (std::ranges::count(kTakenOver, entry.key) == 0) continue;
      if (const yaml::Node* own = job.find(entry.key)) check_mergeable(entry, *own);
      merged.entries.push_back({entry.key, entry.key_span, copy_of(entry.value, nodes_)});
    }
    merge(merged, std::move(job));
    const yaml::Node* theirs = other.find("graph");
    yaml::Node* graph = merged.find("graph");
    // Places are set only if the job does not replace the whole graph.
    if (theirs && graph && graph->span == theirs->span) set_places(*theirs, *graph);
    sort_keys(merged);
    job = std::move(merged);
  }

  /// Reports entries that would be merged with a variable, because they can only be merged with
  /// entries.
  void check_mergeable(const yaml::Entry& theirs, const yaml::Node& own) {
    if (own.is_mapping() == theirs.value.is_mapping()) return;
    const yaml::Node& variable = own.is_mapping() ? theirs.value : own;
    if (!variable.scalar.starts_with('$')) return;
    error(variable, fmt::format("`{}` is `{}`; expected a mapping", theirs.key, variable.scalar))
        .with_hint("write the entries here: jobs are extended before variables are known");
  }

  /// Sorts the keys in the order of the language reference, which makes the resolved job easier to
  /// read.
  static void sort_keys(yaml::Node& job) {
    static const std::vector<std::string> kOrder = names_of(kJobSection.keys);
    std::ranges::stable_sort(job.entries, {}, [](const yaml::Entry& entry) {
      return std::ranges::find(kOrder, entry.key) - kOrder.begin();
    });
  }

  /// Limits the number of copied nodes. In a chain of jobs that each add entries, it grows with the
  /// square of their number.
  bool may_copy(const yaml::Node& job) {
    if (nodes_ <= kMostNodes) return true;
    if (!too_many_)
      reader_.error(
          Diagnosis::kOutOfRange, *job.find("extends"),
          fmt::format("extended jobs expand the file to more than {} values", kMostNodes));
    too_many_ = true;
    return false;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const yaml::Entry& job : jobs_.entries)
      if (job.key != "note" && job.key != open_.back() && !is_deletion(job))
        names.push_back(job.key);
    return names;
  }

  Diag& error(const yaml::Node& node, std::string message) {
    return reader_.error(Diagnosis::kBadExtends, node, std::move(message));
  }

  Reader& reader_;
  yaml::Node& jobs_;
  // The chain of jobs that are being extended. Each extends the next one.
  std::vector<std::string> open_;
  std::set<std::string> failed_;
  size_t nodes_ = 0;
  bool too_many_ = false;
};

/// Returns the node at the keys of `path`, or null if there is none. Sets `deleted` if one of the
/// keys is deleted.
const yaml::Node* follow(const yaml::Node& job, std::span<const std::string> path, bool& deleted) {
  const yaml::Node* node = &job;
  for (const std::string& key : path) {
    deleted = deleted || node->find("~" + key);
    node = node->find(key);
    if (!node) return nullptr;
  }
  return node;
}

}  // namespace

void extend_jobs(Reader& reader, yaml::Node& file) {
  if (yaml::Node* jobs = file.find("jobs")) Extender(reader, *jobs).run();
}

const yaml::Node* inherited(const yaml::Node& file, const std::vector<std::string>& path) {
  if (path.size() < 3 || path[0] != "jobs" || std::ranges::count(kTakenOver, path[2]) == 0)
    return nullptr;
  const yaml::Node* jobs = file.find("jobs");
  const yaml::Node* job = jobs ? jobs->find(path[1]) : nullptr;
  const auto rest = std::span(path).subspan(2);
  bool deleted = false;
  for (size_t i = 0; job && i < kMostJobs; ++i) {
    if (const yaml::Node* found = follow(*job, rest, deleted); i > 0 && found) return found;
    const yaml::Node* extends = job->find("extends");
    if (!extends || deleted) return nullptr;
    job = jobs->find(extends->scalar);
  }
  return nullptr;
}

}  // namespace flow::job
