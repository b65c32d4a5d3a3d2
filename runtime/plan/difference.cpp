// Two plans compared as JSON.
#include "runtime/plan/difference.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "runtime/plan/json/json.h"
#include "runtime/plan/json/json_writer.h"
#include "runtime/plan/model/shards.h"

namespace flow::plan {
namespace {

/// What follows from the steps: the lifetime of a tensor.
bool is_derived(const Json& object, const std::string& key) {
  return object.contains("role") && (key == "first" || key == "last");
}

/// By what the elements of a list are told apart; empty where they have no names, or one twice.
std::vector<std::string> names_of(const Json& list) {
  std::vector<std::string> names;
  for (const Json& element : list) {
    std::string name;
    for (const char* key : {"name", "tensor"})
      if (name.empty() && element.is_object() && element.contains(key) && element[key].is_string())
        name = element[key].get<std::string>();
    // A tensor may be watched and its gradient too.
    if (element.is_object() && element.contains("kind") && element.contains("steps"))
      name = element["kind"].get<std::string>() + " " + name;
    names.push_back(name);
  }
  const std::set<std::string> distinct(names.begin(), names.end());
  return distinct.size() == names.size() && !distinct.contains("") ? names
                                                                   : std::vector<std::string>();
}

std::map<std::string_view, const Json*> by_name(const std::vector<std::string>& names,
                                                const Json& list) {
  std::map<std::string_view, const Json*> elements;
  for (size_t i = 0; i < names.size(); ++i) elements.emplace(names[i], &list[i]);
  return elements;
}

/// Each job for the whole batch, with its number of shards instead of what follows from that.
Json comparable(const Plan& plan) {
  Document document{{}, {}, plan};
  for (Job& job : document.plan.jobs) {
    if (job.sharding) job.devices = 1;  // as many as shards
    job = whole_job(job);
  }
  Json json = Json::parse(JsonWriter(JsonWriter::Remarks::kLeftOut).write(document));
  for (size_t i = 0; i < plan.jobs.size(); ++i) json["jobs"][i]["shards"] = shards_of(plan.jobs[i]);
  return json;
}

class Comparison {
 public:
  std::vector<Difference> run(const Json& a, const Json& b) {
    lists("", a.at("jobs"), b.at("jobs"));
    return std::move(found_);
  }

 private:
  void values(const std::string& path, const Json* a, const Json* b) {
    if (a && b && a->is_object() && b->is_object()) return objects(path, *a, *b);
    if (a && b && a->is_array() && b->is_array() && !names_of(*a).empty() && !names_of(*b).empty())
      return lists(path, *a, *b);
    if (a && b && *a == *b) return;
    found_.push_back({path, text(a), text(b)});
  }

  static std::optional<std::string> text(const Json* value) {
    return value ? std::optional(value->dump()) : std::nullopt;
  }

  void objects(const std::string& path, const Json& a, const Json& b) {
    const auto at = [](const Json& object, const std::string& key) {
      const auto found = object.find(key);
      return found == object.end() ? nullptr : &*found;
    };
    std::set<std::string> keys;
    for (const Json* object : {&a, &b})
      for (const auto& [key, value] : object->items()) keys.insert(key);
    for (const std::string& key : keys)
      if (!is_derived(a, key))
        values(path.empty() ? key : path + "." + key, at(a, key), at(b, key));
  }

  void lists(const std::string& path, const Json& a, const Json& b) {
    const std::vector<std::string> in_a = names_of(a), in_b = names_of(b);
    const std::map<std::string_view, const Json*> of_a = by_name(in_a, a), of_b = by_name(in_b, b);
    const auto at = [](const auto& list, const std::string& name) {
      const auto found = list.find(name);
      return found == list.end() ? nullptr : found->second;
    };
    std::vector<std::string> names = in_a;
    for (const std::string& name : in_b)
      if (!of_a.contains(name)) names.push_back(name);
    for (const std::string& name : names)
      values(path.empty() ? name : path + "[" + name + "]", at(of_a, name), at(of_b, name));
    if (names.size() == in_a.size() && names.size() == in_b.size() && in_a != in_b)
      found_.push_back({path + " (order)", Json(in_a).dump(), Json(in_b).dump()});
  }

  std::vector<Difference> found_;
};

}  // namespace

std::vector<Difference> differences(const Plan& a, const Plan& b) {
  return Comparison().run(comparable(a), comparable(b));
}

}  // namespace flow::plan
