// The mappings of a job file that have a key, for hints about misplaced keys.
#include <fmt/format.h>

#include <set>
#include <utility>

#include "compiler/job/tables/tables.h"
#include "compiler/job/text/reader.h"

namespace flow::job {
namespace {

class OwnerSearch {
 public:
  explicit OwnerSearch(std::string_view key) : key_(key) {}

  void look_into(const Section& section) { look_into(section, section.what); }

  std::vector<std::string> found() && { return std::move(found_); }

 private:
  void look_into(const Section& section, const std::string& name) {
    if (!seen_.insert(&section).second) return;
    look_into(section.keys, name);
    if (section.each) look_behind(*section.each);
  }

  void look_into(const VariantKind& kind) {
    if (!seen_.insert(&kind).second) return;
    look_into(kind.common, fmt::format("`{}`", kind.key));
    std::vector<std::string> owners;
    for (const Variant& variant : kind.variants) {
      if (find_key(variant.keys, key_)) owners.emplace_back(variant.type);
      for (const KeyDef& key : variant.keys) look_behind(key);
    }
    if (!owners.empty())
      found_.push_back(
          listed(fmt::format("the {}{}", kind.noun, owners.size() > 1 ? "s" : ""), owners));
  }

  void look_into(const std::vector<KeyDef>& keys, const std::string& owner) {
    if (find_key(keys, key_)) found_.push_back(owner);
    for (const KeyDef& key : keys) look_behind(key);
  }

  void look_behind(const KeyDef& key) {
    if (key.section) look_into(*key.section);
    if (key.variants) look_into(*key.variants);
    if (key.type == KeyType::kHooks)
      for (const Section& hook : hook_sections())
        look_into(hook, fmt::format("a `{}` hook", hook.keys.front().name));
  }

  std::string_view key_;
  std::set<const void*> seen_;
  std::vector<std::string> found_;
};

}  // namespace

std::vector<std::string> owners_of(std::string_view key) {
  OwnerSearch search(key);
  search.look_into(file_section());
  return std::move(search).found();
}

}  // namespace flow::job
