// Describes parts of a plan in a few words.
#include "cli/show/show.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/shared/reports.h"
#include "ops/core/spec.h"
#include "runtime/base/array.h"
#include "runtime/base/text.h"
#include "runtime/io/commands.h"
#include "runtime/plan/model/cost.h"
#include "runtime/plan/model/named_values.h"
#include "runtime/plan/model/shards.h"

namespace flow::cli {
namespace {

std::string sink_text(const plan::Sink& sink) {
  if (const auto* command = std::get_if<plan::CommandSink>(&sink))
    return "command " + io::command_text(*command);
  if (const auto* npy = std::get_if<plan::NpySink>(&sink))
    return npy->per_step ? "npy, a file a step" : "npy";
  const auto metric_text = [](const plan::Metric& metric) {
    return "metric " + std::string(plan::enum_name(metric.type));
  };
  if (const auto* print = std::get_if<plan::PrintSink>(&sink)) {
    if (print->metric) return metric_text(*print->metric);
    constexpr std::array<std::string_view, 6> kReduce = {"",     " mean", " sum",
                                                         " min", " max",  " norm"};
    return fmt::format("print{}{}", kReduce[static_cast<size_t>(print->reduce)],
                       print->every > 1 ? fmt::format(" every {}", print->every) : "");
  }
  if (std::holds_alternative<plan::StatsSink>(sink)) return "stats";
  if (const auto* mean = std::get_if<plan::MeanSink>(&sink))
    return mean->metric ? metric_text(*mean->metric) : "mean";
  return "none";
}

/// Returns a text such as "0.1, 0.01, ...".
template <typename Number>
std::string list_text(const std::vector<Number>& numbers) {
  constexpr size_t kMost = 4;
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(kMost, numbers.size()); ++i)
    texts.push_back(shortest(static_cast<double>(numbers[i])));
  if (numbers.size() > kMost) texts.push_back("...");
  return join(texts, ", ");
}

std::string stage_text(const plan::RateFunction& function,
                       const std::optional<plan::Warmup>& warmup) {
  plan::NamedValues values = plan::named_values(function);
  if (const auto base = values.numbers.extract("base"))
    values.type += " " + shortest(base.mapped());
  std::string text = plan::text_of(values);
  if (!values.rates.empty()) text += " " + list_text(values.rates);
  if (!values.boundaries.empty()) text += " at steps " + list_text(values.boundaries);
  if (warmup)
    text += fmt::format(", {} warmup from {}x over {}", plan::enum_name(warmup->type),
                        shortest(warmup->multiplier),
                        counted(static_cast<uint64_t>(warmup->steps), "step"));
  return text;
}

}  // namespace

std::string type_of(const plan::Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype), tensor.shape.str());
}

std::string type_of(const plan::Job& job, const plan::Tensor& tensor) {
  return fmt::format("{} {}", name_of(tensor.dtype), plan::whole_shape(job, tensor).str());
}

std::string source_text(const plan::InputSource& source) {
  if (const auto* column = std::get_if<plan::FromDataset>(&source))
    return column->rows_name() + "." + column->column;
  if (const auto* file = std::get_if<plan::FromNpy>(&source)) return file->path;
  if (const auto* made = std::get_if<plan::FromGenerator>(&source))
    return plan::text_of(plan::named_values(*made));
  return "--input";
}

std::string sinks_text(const std::vector<plan::Sink>& sinks) {
  std::vector<std::string> texts;
  texts.reserve(sinks.size());
  for (const plan::Sink& sink : sinks) texts.push_back(sink_text(sink));
  return join(texts, ", ");
}

std::string schedule_text(const plan::Schedule& schedule) {
  std::string text = stage_text(schedule.function, schedule.warmup);
  for (const plan::ScheduleStage& stage : schedule.stages)
    text += fmt::format("; from step {} {}", stage.from, stage_text(stage.function, stage.warmup));
  return text;
}

std::string followed_text(const plan::FollowedValue& value) {
  return (value.mode == plan::Mode::kMin ? "smallest " : "largest ") + value.text;
}

std::string run_text(const plan::Run& run) {
  std::vector<std::string> texts;
  if (run.epochs) texts.push_back(counted(static_cast<uint64_t>(*run.epochs), "epoch"));
  if (run.steps) texts.push_back(counted(static_cast<uint64_t>(*run.steps), "step"));
  if (run.shuffle) texts.emplace_back("shuffled");
  if (run.shuffle_buffer)
    texts.push_back(fmt::format("shuffled among {} rows", run.shuffle_buffer->buffer));
  if (run.sampling)
    texts.push_back(fmt::format("{} sampling", plan::enum_name(run.sampling->kind)));
  return join(texts, ", ");
}

std::string devices_text(const plan::Job& job) {
  if (!plan::has_two_devices(job)) return std::string(plan::name_of(job.device));
  return fmt::format("{} and {}", plan::name_of(job.device), plan::name_of(other(job.device)));
}

std::string job_text(const plan::Job& job) {
  return fmt::format("{} on {}, {}, seed {}", job.train ? "training" : "predicting",
                     devices_text(job), job.precision, job.seed);
}

std::string shards_text(const plan::Job& job) {
  if (!job.sharding) return "";
  std::string text = std::to_string(job.sharding->count);
  const auto rows = std::ranges::find_if(
      job.inputs, [&](const plan::Input& input) { return job[input.tensor].batch_axis >= 0; });
  if (rows != job.inputs.end()) {
    const plan::Tensor& input = job[rows->tensor];
    text +=
        fmt::format(" of {}", counted(static_cast<uint64_t>(input.shape[input.batch_axis]), "row"));
  }
  uint64_t combined = 0, bytes = 0;
  for (const plan::Tensor& tensor : job.tensors) {
    if (!tensor.combine) continue;
    ++combined;
    bytes += bytes_of(tensor.shape, tensor.dtype);
  }
  if (combined > 0)
    text += fmt::format(", {} combined, {}", counted(combined, "tensor"), human_bytes(bytes));
  return text;
}

std::string determinism_text(const plan::Job& job) {
  if (job.deterministic) return "";
  std::string names;
  for (const plan::Step& step : job.steps)
    if (step.op->convolves()) names += (names.empty() ? "" : ", ") + step.name;
  if (names.empty()) return "determinism is off, without effect: the job has no convolution\n";
  return fmt::format(
      "determinism is off: on a GPU, results of these can vary from run to run: {}\n", names);
}

bool prints_metric(const plan::Hook& hook) {
  return std::ranges::any_of(hook.sinks, [](const plan::Sink& sink) {
    const auto* print = std::get_if<plan::PrintSink>(&sink);
    return print && print->metric;
  });
}

std::string probes_text(const plan::Job& job) {
  Table table;
  const double call = plan::estimate_call_seconds(job);
  for (const plan::Step& step : job.steps)
    if (step.probe)
      table.row({step.name,
                 call > 0 ? fmt::format("adds about {:.2g} % to a step in which its hook fires",
                                        100 * plan::estimate_seconds(job, step) / call)
                          : "runs only in steps in which its hook fires"});
  return table.str();
}

std::string line_of(const std::string& where, const std::string& source) {
  const size_t column = where.rfind(':');
  const std::string place = column == where.npos ? where : where.substr(0, column);
  if (place.starts_with(source + ":")) return place.substr(source.size() + 1);
  return place.substr(place.rfind('/') + 1);
}

}  // namespace flow::cli
