// Compares two plans as JSON, and describes their differences with the keys of the job file.
#include "runtime/plan/difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/json/structs.h"
#include "runtime/plan/model/shards.h"
#include "runtime/plan/model/variable_sharing.h"
#include "runtime/plan/serialize.h"

namespace flow::plan {

namespace {

/// Returns true for the lifetime of a tensor, which follows from the steps.
bool is_derived(const Json& object, const std::string& key) {
  return object.contains("role") && (key == "first" || key == "last");
}

/// Returns the names that identify the elements of a list, or an empty list if an element has no
/// name or two have the same one.
std::vector<std::string> names_of(const Json& list) {
  std::vector<std::string> names;
  for (const Json& element : list) {
    std::string name;
    for (const char* key : {"name", "tensor"})
      if (name.empty() && element.is_object() && element.contains(key) && element[key].is_string())
        name = element[key].get<std::string>();
    // A tensor and its gradient may both be watched.
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

/// Returns the plan with each job for the whole batch, and with the number of shards instead of the
/// values that follow from it.
Json comparable(const Plan& plan) {
  Document document{{}, {}, plan};
  for (Job& job : document.plan.jobs) {
    if (job.sharding) job.devices = 1;  // the number of devices follows from the number of shards
    job = unsharded_job(job);
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

namespace {

constexpr const char* kNoneText = "none";

using Parts = std::vector<std::string>;

/// Splits a path: "train.steps[mlp/flat].attributes.axis" becomes train, steps, mlp/flat,
/// attributes, axis.
Parts split_path(std::string_view path) {
  Parts parts(1);
  bool in_brackets = false;
  for (const char c : path) {
    if (c == ']' && in_brackets)
      in_brackets = false;
    else if (in_brackets || (c != '.' && c != '['))
      parts.back() += c;
    else {
      in_brackets = c == '[';
      parts.emplace_back();
    }
  }
  return parts;
}

/// Returns a value of a plan in a form for users: a step as its op, a column as its file, a string
/// without quotes, and nothing longer than 60 bytes.
std::string shown(const std::optional<std::string>& value) {
  constexpr size_t kLongest = 60;
  if (!value) return kNoneText;
  Json json = Json::parse(*value);
  for (const char* name : {"op", "files"})
    if (json.is_object() && json.contains(name)) json = Json(json[name]);
  std::string text = json.is_string() ? json.get<std::string>()
                     : json.is_null() ? kNoneText
                                      : json.dump();
  if (text.size() <= kLongest) return text;
  size_t end = kLongest;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // so that no character is cut
  return text.substr(0, end) + "...";
}

std::string shown(const Schedule& schedule) {
  if (!schedule.stages.empty()) return fmt::format("{} schedules", 1 + schedule.stages.size());
  if (const auto* constant = std::get_if<schedules::Constant>(&schedule.function))
    return shortest(constant->base);
  if (const auto* pieces = std::get_if<schedules::PiecewiseConstant>(&schedule.function);
      pieces && pieces->boundaries.empty())
    return shortest(pieces->values.front());
  return std::string(type_name(schedule.function));
}

std::string shown(const InputSource& source) {
  if (const auto* column = std::get_if<FromDataset>(&source))
    return column->rows_name() + "." + column->column;
  if (const auto* npy = std::get_if<FromNpy>(&source)) return npy->path;
  if (const auto* generator = std::get_if<FromGenerator>(&source))
    return std::string(type_name(*generator));
  return kNoneText;
}

/// One difference for a message. The smaller the rank, the closer the key is to what the user
/// wrote.
struct Line {
  int rank;
  std::string key, in_run, now;
};

enum Rank : int { kJob, kWritten, kVariable, kStep, kDerived };

/// Describes the differences of one job.
class Teller {
 public:
  Teller(const Job& in_run, const Job& now, std::string prefix)
      : in_run_(in_run), now_(now), prefix_(std::move(prefix)) {}

  Line line(const Difference& difference, Parts parts) const {
    Line line{kWritten, join(parts, "."), shown(difference.a), shown(difference.b)};
    const std::string section = parts.front();
    if (section == "datasets")
      data(parts, line);
    else if (section == "inputs")
      input(parts, line);
    else if (section == "optimizer")
      optimizer(parts, line);
    else if (section == "returns")
      line.rank = kDerived;
    else if (section == "steps")
      step(parts, line);
    else if (section == "steps (order)" && shards_of(in_run_) != shards_of(now_))
      line.rank = kDerived;
    else if (section == "tensors")
      tensor(parts, line);
    else if (section == "variables")
      variable(parts, line);
    line.key = prefix_ + line.key;
    return line;
  }

 private:
  /// The plan groups the keys of a column, and those of a dataset are below `options`.
  void data(const Parts& parts, Line& line) const {
    line.key = "data." + parts[1];
    if (parts.size() > 2 && parts[2] != "columns") line.key += ".options." + parts.back();
    if (parts.size() > 3 && parts[2] == "columns") line.key += "." + parts[3];
    if (parts.size() > 4 && parts[2] == "columns")
      line.key += "." + (parts[4] == "row_shape" ? "shape" : parts.back());
  }

  void input(const Parts& parts, Line& line) const {
    if (parts.size() < 3 || parts[2] != "source") return;
    line.key = fmt::format("inputs.{}.from", parts[1]);
    const auto source = [&](const Job& job) {
      const auto found = std::ranges::find_if(
          job.inputs, [&](const Input& one) { return job[one.tensor].name == parts[1]; });
      return found == job.inputs.end() ? kNoneText : shown(found->source);
    };
    if (source(in_run_) == source(now_)) {  // a number of the generator has changed
      line.key += "." + parts.back();
      return;
    }
    line.in_run = source(in_run_);
    line.now = source(now_);
  }

  void optimizer(const Parts& parts, Line& line) const {
    if (parts.size() < 2) return;
    if (parts[1] == "loss") line.rank = kDerived;
    if (parts[1] == "loss_name") line.key = "optimizer.minimize";
    if (parts[1] != "learning_rate" || !in_run_.optimizer || !now_.optimizer) return;
    const std::string a = shown(in_run_.optimizer->learning_rate);
    const std::string b = shown(now_.optimizer->learning_rate);
    line.key = "optimizer.learning_rate";
    if (a == b) line.key += "." + parts.back();  // a number of the schedule has changed
    if (a == b) return;
    line.in_run = a;
    line.now = b;
  }

  /// An attribute of an update step is a key of the optimizer in the job file.
  void step(const Parts& parts, Line& line) const {
    const auto attributes = std::ranges::find(parts, "attributes");
    const bool in_epilogue = parts.size() > 3 && parts[2] == "posts";
    const std::string& name = parts[in_epilogue ? 3 : 1];
    const std::string attribute =
        attributes != parts.end() && parts.size() > 2 ? parts.back() : std::string();
    line.rank = kStep;
    if (name.ends_with(":update") && !attribute.empty()) {
      line.key = "optimizer." + attribute;
      const bool default_value =
          line.in_run == kNoneText && (line.now == "false" || line.now == "0.0");
      line.rank = attribute.ends_with("scale") || default_value ? kDerived : kWritten;
    } else if (name.find(':') != name.npos) {
      line.rank = kDerived;
    } else if (!attribute.empty()) {
      line.key = name + "." + attribute;
    } else if (parts.size() == (in_epilogue ? 4U : 2U) || parts.back() == "op") {
      line.key = name;
    } else if (parts.back() != "device") {
      line.rank = kDerived;  // the operands and results of the step
    }
  }

  void tensor(const Parts& parts, Line& line) const {
    const auto has_role = [&](const Job& job, Role role) {
      return std::ranges::any_of(
          job.tensors, [&](const Tensor& one) { return one.name == parts[1] && one.role == role; });
    };
    line.rank = kDerived;
    if (parts.size() != 3) return;
    if (has_role(now_, Role::kInput)) line.rank = kWritten, line.key = "inputs.";
    if (has_role(now_, Role::kVariable)) line.rank = kVariable, line.key = "";
    if (line.rank != kDerived) line.key += parts[1] + "." + parts[2];
  }

  void variable(const Parts& parts, Line& line) const {
    line.rank = parts.size() < 3 ? kDerived : kVariable;
    if (parts.size() < 3) return;
    line.key = fmt::format("{}.{}", parts[1], parts[2]);
    if (parts.size() > 3) line.key += "." + parts.back();
  }

  const Job &in_run_, &now_;
  const std::string prefix_;
};

/// Returns the job and the jobs that it calls, without the parts that `--resume` ignores.
Plan compared_part(const Plan& plan, const Job& job) {
  Plan part;
  const auto add = [&](const Job& one) {
    part.jobs.push_back(resumed_part(one));
    if (&one == &job)
      part.jobs.back().run.also = job.run.also;
    else
      part.jobs.back().run.steps = one.run.steps;
  };
  add(job);
  for (const Job* called : sub_jobs_of(plan, job)) add(*called);
  return part;
}

const Job* find(const std::vector<Job>& jobs, const std::string& name) {
  const auto found = std::ranges::find(jobs, name, &Job::name);
  return found == jobs.end() ? nullptr : &*found;
}

std::vector<Line> list_lines(const Plan& in_run, const Plan& now) {
  std::vector<Line> lines;
  for (const Difference& difference : differences(in_run, now)) {
    Parts parts = split_path(difference.path);
    const std::string name = parts.front();
    const Job *before = find(in_run.jobs, name), *after = find(now.jobs, name);
    if (parts.size() < 2 || !before || !after) {
      lines.push_back(
          {kJob, "job " + name, before ? "called" : kNoneText, after ? "called" : kNoneText});
      continue;
    }
    parts.erase(parts.begin());
    const std::string prefix = name == now.jobs.front().name ? "" : name + ".";
    lines.push_back(Teller(*before, *after, prefix).line(difference, std::move(parts)));
  }
  return lines;
}

}  // namespace

std::vector<JobChange> list_job_changes(const Plan& before, const Plan& after,
                                        const std::string& job) {
  const Job *a = find(before.jobs, job), *b = find(after.jobs, job);
  FLOW_CHECK(a && b, "no job {}", job);
  std::vector<Line> lines = list_lines(compared_part(before, *a), compared_part(after, *b));
  std::ranges::stable_sort(lines, {}, &Line::rank);
  std::vector<JobChange> changes;
  for (const Line& line : lines) {
    if (line.rank == kDerived && lines.front().rank != kDerived) break;
    const auto same = [&](const JobChange& one) {
      return one.key == line.key && one.before == line.in_run && one.after == line.now;
    };
    if (std::ranges::none_of(changes, same)) changes.push_back({line.key, line.in_run, line.now});
  }
  return changes;
}

std::vector<std::string> job_changes(const Plan& in_run, const Plan& now, const std::string& job) {
  if (!find(in_run.jobs, job) || !find(now.jobs, job))
    return {fmt::format("the run has no job `{}`", job)};
  std::vector<std::string> lines;
  for (const JobChange& change : list_job_changes(in_run, now, job))
    lines.push_back(
        fmt::format("{}: {} in the run, {} now", change.key, change.before, change.after));
  return lines;
}

}  // namespace flow::plan
