// Reads the jobs that `run.also` calls, checks that jobs in one run agree, and resolves the values
// of jobs that a run follows.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "compiler/job/read/sections.h"
#include "compiler/job/tables/tables.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::job {
namespace {

void read_item(Reader& reader, const yaml::Node& node, bool has_dataset, Job& job) {
  const Span start{node.span.source, node.span.begin, node.span.begin + 1};
  const Fields fields(reader, node, start, kSubJobsSection);
  const auto text = fields.text("job");
  plan::SubJob also;
  if (const yaml::Node* every = fields.require("every")) {
    const Period period = read_period(fields, *every, has_dataset);
    also.every_steps = period.steps;
    also.every_epochs = period.epochs;
  }
  also.averaged = fields.word("weights") == "ema";
  if (!text) return;
  const Span name = fields.find("job")->span;
  also.job = *text;
  also.where = reader.sources.where(name);
  job.run.also.push_back(std::move(also));
  job.also_spans.push_back(name);
}

std::string_view name_of(const Job& job) { return job.name.text; }

void check_weights(Reader& reader, Span span, const Job& main, const Job& called) {
  if (called.train)
    reader
        .error(Diagnosis::kAlso, span, "`weights: ema` for train job `{}`; expected a predict job",
               called.name.text)
        .with_hint("averages are only read; remove `weights`");
  else if (!main.optimizer || !main.optimizer->ema_decay)
    reader
        .error(Diagnosis::kAlso, span, "`weights: ema`, but job `{}` keeps no averages",
               main.name.text)
        .with_hint("add `ema: {decay: 0.999}` to its optimizer");
}

/// Checks a called job, which cannot follow values.
void check_called(Reader& reader, Span span, const Job& main, const plan::SubJob& also,
                  const Job& called) {
  if (also.averaged) check_weights(reader, span, main, called);
  if (!called.optimizer || !called.optimizer->learning_rate.follows) return;
  reader
      .error(Diagnosis::kAlso, span,
             "the learning rate of job `{}` is a plateau, which called jobs do not "
             "support",
             called.name.text)
      .label(called.optimizer->follows_place.span, "the monitored value")
      .with_hint("use a schedule of steps, such as `cosine`, in the called job");
}

const plan::Job* find_made(const std::vector<plan::Job>& made, std::string_view name) {
  const auto found = std::ranges::find(made, name, &plan::Job::name);
  return found == made.end() ? nullptr : &*found;
}

/// Checks that a called job uses the devices of its caller.
void check_devices_of_called(Reader& reader, Span span, const plan::Job& main,
                             const plan::Job& called) {
  if (called.ids.empty() || called.ids == main.ids) return;
  reader
      .error(Diagnosis::kAlso, span,
             "`ids` of job `{}` names other devices than job `{}`, which calls it", called.name,
             main.name)
      .with_hint("delete `ids` in `{}`: it runs on the devices of `{}`", called.name, main.name);
}

}  // namespace

void read_sub_jobs(Reader& reader, const yaml::Node& node, bool has_dataset, Job& job) {
  if (!reader.expect(node, yaml::Kind::kList, "`also`", hint_for_item(node))) return;
  for (const yaml::Node& item : node.items) read_item(reader, item, has_dataset, job);
}

void check_sub_job_names(Reader& reader, const File& file) {
  std::vector<std::string> names;
  for (const Job& job : file.jobs) names.push_back(job.name.text);
  for (const Job& job : file.jobs) {
    for (size_t i = 0; i < job.run.also.size(); ++i) {
      const std::string& name = job.run.also[i].job;
      const Span span = job.also_spans[i];
      if (name == job.name.text)
        reader.error(Diagnosis::kAlso, span, "job `{}` cannot call itself", name);
      else if (std::ranges::find(names, name) == names.end())
        reader.error(Diagnosis::kUnknownJob, span, "unknown job `{}`", name)
            .with_hint(suggestion(name, names, "available jobs:"));
      else
        check_called(reader, span, job, job.run.also[i],
                     *std::ranges::find(file.jobs, name, name_of));
      for (size_t k = 0; k < i; ++k)
        if (job.run.also[k].job == name)
          reader.error(Diagnosis::kAlso, span, "duplicate job `{}` in `also`", name)
              .label(job.also_spans[k], "first listed here");
    }
  }
}

void check_sub_job_plans(Reader& reader, const File& file, const std::vector<plan::Job>& made) {
  for (const Job& job : file.jobs) {
    const plan::Job* main = find_made(made, job.name.text);
    if (!main) continue;
    std::vector<const plan::Job*> together{main};
    for (size_t i = 0; i < job.run.also.size(); ++i) {
      const plan::Job* other = find_made(made, job.run.also[i].job);
      if (!other) continue;
      check_devices_of_called(reader, job.also_spans[i], *main, *other);
      for (const plan::Job* before : together) {
        const auto conflict = plan::sharing_conflict(*before, *other);
        if (!conflict) continue;
        reader.error(Diagnosis::kAlso, job.also_spans[i], *conflict)
            .with_hint(
                "use the same shapes, dtypes and placement in all jobs of a run, and train a "
                "variable "
                "with optimizer slots in only one of them");
        break;
      }
      together.push_back(other);
    }
  }
}

bool calls(const Job& job, std::string_view name) {
  return std::ranges::any_of(job.run.also, [&](const plan::SubJob& a) { return a.job == name; });
}

namespace {

/// Calls visit(value, place) for each value that the job follows, with its position.
template <typename Visit>
void visit_followed(Job& job, const Visit& visit) {
  if (job.run.early_stopping) visit(job.run.early_stopping->value, job.early_stopping_place);
  if (job.run.checkpoint.keep_best) visit(*job.run.checkpoint.keep_best, job.keep_best_place);
  if (job.optimizer && job.optimizer->learning_rate.follows)
    visit(*job.optimizer->learning_rate.follows, job.optimizer->follows_place);
}

std::optional<plan::Metric> metric_of(const Job& job, const std::string& tensor) {
  for (const auto& [name, metric] : job.metrics)
    if (name == tensor) return metric;
  return {};
}

class ValueFinder {
 public:
  ValueFinder(Reader& reader, const File& file, const Job& job)
      : reader_(reader), file_(file), job_(job) {}

  void resolve(plan::FollowedValue& value, const FollowedPlace& place) const {
    find(value, place.span);
    const Job& maker =
        value.job.empty() ? job_ : *std::ranges::find(file_.jobs, value.job, name_of);
    const auto metric = metric_of(maker, value.tensor);
    if (metric && !place.has_mode) value.mode = plan::better_of(metric->type);
    if (metric && !plan::is_number(*metric))
      refuse(place.span, fmt::format("`{}` is a matrix; expected one number", value.text),
             "follow a metric such as accuracy or f1");
  }

 private:
  void find(plan::FollowedValue& value, Span span) const {
    const std::string text = value.text;
    const size_t dot = text.find('.');
    const std::string first = text.substr(0, dot);
    if (text.find('*') != std::string::npos)
      return refuse(span, fmt::format("`{}` is a pattern; expected one tensor", text),
                    "write JOB.TENSOR for a job of `also`, or TENSOR");
    if (dot == std::string::npos || is_own(first)) return resolve_own(value, text, span);
    if (first == job_.name.text) return resolve_own(value, text.substr(dot + 1), span);
    if (!calls(job_, first)) return report_unknown(text, first, span);
    value.job = first;
    value.tensor = text.substr(dot + 1);
    if (value.every_steps > 0 || value.every_epochs > 0)
      refuse(span,
             fmt::format("unexpected `every` for `{}`: job `{}` is called as `also` says", text,
                         first),
             "set `every` in the item of `also`");
  }

  /// Returns true if `first` is an entry of this job, because the name of a second result also
  /// contains a dot.
  bool is_own(const std::string& first) const {
    return !calls(job_, first) && std::ranges::any_of(job_.graph.entries, [&](const Entry& entry) {
      return entry.name.text == first;
    });
  }

  void resolve_own(plan::FollowedValue& value, std::string tensor, Span span) const {
    value.tensor = std::move(tensor);
    const bool reads_dataset = std::ranges::any_of(job_.inputs, [](const Input& input) {
      return std::holds_alternative<plan::FromDataset>(input.source);
    });
    if (value.every_steps == 0 && value.every_epochs == 0) value.every_epochs = 1;
    if (value.every_epochs > 0 && !reads_dataset)
      refuse(span,
             fmt::format("`{}` has no epochs to be averaged over: no input reads a dataset",
                         value.text),
             "add `every: {steps: N}`");
  }

  void report_unknown(const std::string& text, const std::string& first, Span span) const {
    std::vector<std::string> called, known;
    for (const plan::SubJob& also : job_.run.also) called.push_back(also.job);
    for (const Job& other : file_.jobs)
      if (other.name.text == first)
        return refuse(
            span, fmt::format("job `{}` does not call `{}`", job_.name.text, first),
            fmt::format("add `also: [{{job: {}, every: {{epochs: 1}}}}]` to `run`", first));
    for (const std::string& job : called) known.push_back(job + text.substr(first.size()));
    refuse(span, fmt::format("unknown value `{}`", text),
           known.empty() ? "write a tensor of this job, or JOB.TENSOR of a job that `also` calls"
                         : suggestion(text, known, "available jobs:"));
  }

  void refuse(Span span, std::string message, std::string hint) const {
    reader_.error(Diagnosis::kFollowed, span, std::move(message)).with_hint(std::move(hint));
  }

  Reader& reader_;
  const File& file_;
  const Job& job_;
};

bool makes(const Job& job, const std::string& key) {
  return std::ranges::any_of(job.hooks, [&](const Hook& hook) {
    const auto* mean = std::get_if<plan::MeanSink>(&hook.plan.sinks.front());
    return hook.followed && mean && mean->value == key;
  });
}

}  // namespace

std::optional<plan::FollowedValue> read_followed(const Fields& fields, std::string_view key,
                                                 FollowedPlace& place) {
  plan::FollowedValue value;
  if (const auto mode = fields.word("mode")) {
    value.mode = enumerator_of<plan::Mode>(words_of<plan::Mode>(), *mode);
    place.has_mode = true;
  }
  if (const yaml::Node* every = fields.find("every")) {
    const Period period = read_period(fields, *every, true);  // epochs are checked later
    value.every_steps = period.steps;
    value.every_epochs = period.epochs;
  }
  const auto text = fields.text(key);
  if (!text) return {};
  value.text = *text;
  place.span = fields.find(key)->span;
  value.where = fields.reader().sources.where(place.span);
  return value;
}

std::optional<plan::EarlyStopping> read_early_stopping(const Fields& fields, FollowedPlace& place) {
  auto value = read_followed(fields, "watch", place);
  const auto patience = fields.integer("patience");
  const auto min_delta = fields.number("min_delta");
  if (!value || !patience || !min_delta) return {};
  return plan::EarlyStopping{std::move(*value), *patience, *min_delta};
}

void resolve_followed(Reader& reader, const File& file, Job& job) {
  const ValueFinder finder(reader, file, job);
  visit_followed(job, [&](plan::FollowedValue& value, const FollowedPlace& place) {
    finder.resolve(value, place);
  });
}

void add_followed_hooks(File& file, Job& job) {
  visit_followed(job, [&](const plan::FollowedValue& value, const FollowedPlace& place) {
    if (value.tensor.empty()) return;  // after an error
    const auto maker =
        value.job.empty() ? &job : &*std::ranges::find(file.jobs, value.job, name_of);
    if (makes(*maker, value.key())) return;
    Hook hook;
    hook.pattern = {value.tensor, place.span};
    hook.followed = true;
    hook.plan.sinks = {plan::MeanSink{value.key(), metric_of(*maker, value.tensor)}};
    hook.span = place.span;
    maker->hooks.push_back(std::move(hook));
  });
}

}  // namespace flow::job
