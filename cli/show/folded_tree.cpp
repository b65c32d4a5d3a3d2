// Equal copies and networks found by what is in them.
#include "cli/show/folded_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

namespace flow::cli {
namespace {

bool is_copy(const Entry& entry) {
  return !entry.name.empty() &&
         std::ranges::all_of(entry.name, [](char c) { return c >= '0' && c <= '9'; });
}

size_t mixed(size_t hash, size_t more) { return (hash ^ more) * 0x9E3779B97F4A7C15u + (hash >> 7); }

class Folding {
 public:
  Folding(const JobTree& tree, const plan::Job& job, bool all)
      : tree_(tree), all_(all), kinds_(tree.entries.size()), sizes_(tree.entries.size()) {
    for (size_t i = tree.entries.size(); i-- > 0;) {
      const Entry& entry = tree.entries[i];
      kinds_[i] = std::hash<std::string>()(entry.op);
      if (!entry.network) kinds_[i] = mixed(kinds_[i], std::hash<std::string>()(entry.where));
      sizes_[i] = mixed(entry.parameters, static_cast<size_t>(entry.flops));
      if (entry.output.valid())
        sizes_[i] = mixed(sizes_[i], std::hash<std::string>()(job[entry.output].shape.str()));
      for (const size_t part : entry.inside) {
        const std::string& name = tree.entries[part].name;
        kinds_[i] = mixed(mixed(kinds_[i], kinds_[part]), std::hash<std::string>()(name));
        sizes_[i] = mixed(sizes_[i], sizes_[part]);
      }
    }
  }

  Folded run() { return folded(0, "", {0}); }

 private:
  Folded folded(size_t i, std::string name, std::vector<size_t> members) {
    Folded made{.entry = i, .name = std::move(name), .copies = members.size()};
    for (const size_t member : members) {
      made.parameters += tree_.entries[member].parameters;
      made.flops += tree_.entries[member].flops;
    }
    made.members = std::move(members);
    const std::vector<size_t>& inside = tree_.entries[i].inside;
    if (!all_ && i != 0 && !inside.empty()) {
      const auto [shown, first] = shown_.emplace(kinds_[i], made.name);
      if (!first) {
        made.shown_at = shown->second;
        return made;
      }
    }
    for (const size_t part : inside) add(part, made.inside);
    return made;
  }

  /// The entry, or where it is a repeat, its copies: equal ones as one.
  void add(size_t i, std::vector<Folded>& to) {
    const Entry& entry = tree_.entries[i];
    const auto copy = [&](size_t part) { return is_copy(tree_.entries[part]); };
    if (entry.inside.empty() || !std::ranges::all_of(entry.inside, copy)) {
      to.push_back(folded(i, entry.name, {i}));
      return;
    }
    const auto same = [&](size_t a, size_t b) {
      return !all_ && kinds_[a] == kinds_[b] && sizes_[a] == sizes_[b];
    };
    for (size_t first = 0; first < entry.inside.size();) {
      size_t end = first + 1;
      while (end < entry.inside.size() && same(entry.inside[first], entry.inside[end])) ++end;
      std::vector<size_t> members(entry.inside.begin() + static_cast<ptrdiff_t>(first),
                                  entry.inside.begin() + static_cast<ptrdiff_t>(end));
      const bool whole = members.size() == entry.inside.size();
      const size_t copy_entry = members.front();
      to.push_back(folded(copy_entry,
                          whole && (!all_ || members.size() == 1)
                              ? entry.name
                              : entry.name + "/" + tree_.entries[copy_entry].name,
                          std::move(members)));
      first = end;
    }
  }

  const JobTree& tree_;
  const bool all_;
  std::vector<size_t> kinds_, sizes_;    // by entry: hashes of what is in it, and of how much
  std::map<size_t, std::string> shown_;  // the name under which such a network is shown
};

}  // namespace

Folded fold(const JobTree& tree, const plan::Job& job, bool all) {
  return Folding(tree, job, all).run();
}

}  // namespace flow::cli
