// What is read of `run.also`, and what two jobs in one run must agree on.
#include "compiler/job/read/sections.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/tables/tables.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::job {
namespace {

void read_item(Reader& reader, const yaml::Node& node, bool has_dataset, Job& job) {
  const Span start{node.span.source, node.span.begin, node.span.begin + 1};
  const Fields fields(reader, node, start, sub_jobs_section());
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
        .error(Diagnosis::kAlso, span,
               fmt::format("`weights: ema` for train job `{}`; expected a predict job",
                           called.name.text))
        .with_hint("averages are only read; remove `weights`");
  else if (!main.optimizer || !main.optimizer->ema_decay)
    reader
        .error(Diagnosis::kAlso, span,
               fmt::format("`weights: ema`, but job `{}` keeps no averages", main.name.text))
        .with_hint("add `ema: {decay: 0.999}` to its optimizer");
}

/// A called job follows no values.
void check_called(Reader& reader, Span span, const Job& main, const plan::SubJob& also,
                  const Job& called) {
  if (also.averaged) check_weights(reader, span, main, called);
  if (!called.optimizer || !called.optimizer->learning_rate.follows) return;
  reader
      .error(Diagnosis::kAlso, span,
             fmt::format("the learning rate of job `{}` is a plateau, which called jobs do not "
                         "support",
                         called.name.text))
      .label(called.optimizer->follows_place.span, "the monitored value")
      .with_hint("use a schedule of steps, such as `cosine`, in the called job");
}

const plan::Job* find_made(const std::vector<plan::Job>& made, std::string_view name) {
  const auto found = std::ranges::find(made, name, &plan::Job::name);
  return found == made.end() ? nullptr : &*found;
}

/// A job that is called runs on the devices of its caller.
void check_devices_of_called(Reader& reader, Span span, const plan::Job& main,
                             const plan::Job& called) {
  if (called.ids.empty() || called.ids == main.ids) return;
  reader
      .error(Diagnosis::kAlso, span,
             fmt::format("`ids` of job `{}` names other devices than job `{}`, which calls it",
                         called.name, main.name))
      .with_hint(fmt::format("delete `ids` in `{}`: it runs on the devices of `{}`", called.name,
                             main.name));
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
        reader.error(Diagnosis::kAlso, span, fmt::format("job `{}` cannot call itself", name));
      else if (std::ranges::find(names, name) == names.end())
        reader.error(Diagnosis::kUnknownJob, span, fmt::format("unknown job `{}`", name))
            .with_hint(suggestion(name, names, "available jobs:"));
      else
        check_called(reader, span, job, job.run.also[i],
                     *std::ranges::find(file.jobs, name, name_of));
      for (size_t k = 0; k < i; ++k)
        if (job.run.also[k].job == name)
          reader.error(Diagnosis::kAlso, span, fmt::format("duplicate job `{}` in `also`", name))
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

}  // namespace flow::job
