// The network and its memory, from plan.json.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/report/html.h"
#include "cli/report/sections.h"
#include "cli/show/job_tree.h"
#include "cli/show/picture.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::cli::report {
namespace {

constexpr size_t kMostNetworks = 6, kLargestPicture = 2 << 20, kMostSteps = 20'000;

/// `name`: of the run, to be shown.
Html picture_of_job(const fs::path& directory, const std::string& name, const plan::Job& job,
                    bool open) {
  const std::string title = name.empty() ? job.name : fmt::format("{}, {}", job.name, name);
  if (job.steps.size() > kMostSteps)
    return fragment("omitted",
                    {{"text", Html::text(fmt::format("{}: {} steps are too many for a picture",
                                                     title, grouped_digits(job.steps.size())))}});
  const std::string svg =
      to_svg(picture_of(job, tree_of(job, entries_of_plan(job)), {.hooks = true}));
  if (svg.size() > kLargestPicture)
    return fragment(
        "omitted",
        {{"text", Html::text(fmt::format("{}: the picture has {}; draw it with flowc "
                                         "show {} --job {} --format svg",
                                         title, human_bytes(svg.size()),
                                         (directory / "plan.json").string(), job.name))}});
  return fragment("picture", {{"title", Html::text(title)},
                              {"open", Html::trusted(open ? " open" : "")},
                              {"svg", Html::trusted(svg)}});
}

/// Least and greatest of neighboring steps would hide the shape: the greatest is what matters.
std::vector<size_t> thinned(const std::vector<size_t>& live) {
  constexpr size_t kMost = 600;
  const size_t stride = (live.size() + kMost - 1) / kMost;
  std::vector<size_t> most;
  for (size_t i = 0; i < live.size(); i += stride)
    most.push_back(*std::max_element(
        live.begin() + static_cast<std::ptrdiff_t>(i),
        live.begin() + static_cast<std::ptrdiff_t>(std::min(i + stride, live.size()))));
  return most;
}

std::vector<std::pair<double, std::string>> byte_labels(const Range& range) {
  // Units of 1024: ticks are round in the unit that the greatest has.
  double unit = 1;
  while (range.to / unit >= 1024) unit *= 1024;
  std::vector<std::pair<double, std::string>> labels;
  for (const double tick : ticks({range.from / unit, range.to / unit}, 4))
    labels.emplace_back(tick * unit, human_bytes(static_cast<uint64_t>(tick * unit)));
  return labels;
}

/// Steps as stairs above what lives all the time.
Html memory_plot(const StepMemory& memory) {
  const std::vector<size_t> live = thinned(memory.live);
  const auto always = static_cast<double>(memory.variables + memory.inputs);
  const auto peak = static_cast<double>(memory.peak()) + always;
  Plot plot{.x = {0, static_cast<double>(memory.live.size())},
            .y = {0, peak * 1.05},
            .x_name = "step of the plan",
            .x_labels = {},
            .y_labels = {},
            .drawing = {}};
  plot.x_labels = tick_labels(plot.x, 5);
  plot.y_labels = byte_labels(plot.y);
  const auto height = [&](double bytes) {
    return fmt::format("{:.5g}", kDrawing * (1 - plot.y.place(bytes)));
  };
  std::string stairs;
  for (size_t i = 0; i < live.size(); ++i) {
    const double right = kDrawing * static_cast<double>(i + 1) / static_cast<double>(live.size());
    stairs += fmt::format("V{}H{:.5g}", height(always + static_cast<double>(live[i])), right);
  }
  plot.drawing = fragment("memory drawing", {{"always", Html::trusted(height(always))},
                                             {"stairs", Html::trusted(stairs)}});
  return draw(plot);
}

Html holders_of(const plan::Job& job, const StepMemory& memory) {
  constexpr size_t kMost = 12;
  const std::vector<exec::Holding> holders = memory.at_peak();
  Html rows;
  for (size_t i = 0; i < std::min(kMost, holders.size()); ++i) {
    const auto& [tensor, block] = holders[i];
    rows += fragment("holder",
                     {{"name", Html::text(job[tensor].name, 120)},
                      {"bytes", Html::text(human_bytes(block.bytes))},
                      {"steps", Html::text(fmt::format("{} to {}", block.first, block.last))},
                      {"share", Html::trusted(fmt::format(
                                    "{:.4g}", 100 * static_cast<double>(block.bytes) /
                                                  static_cast<double>(holders[0].block.bytes)))}});
  }
  if (holders.size() > kMost)
    rows += fragment(
        "more holders",
        {{"text", Html::text(fmt::format("and {} more", grouped_digits(holders.size() - kMost)))}});
  return rows;
}

Html memory_of(const plan::Job& job) {
  const StepMemory memory(job);
  if (memory.peak() == 0) return {};
  const size_t total = memory.variables + memory.inputs + memory.peak();
  return fragment("memory", {{"total", Html::text(human_bytes(total))},
                             {"variables", Html::text(human_bytes(memory.variables))},
                             {"inputs", Html::text(human_bytes(memory.inputs))},
                             {"results", Html::text(human_bytes(memory.peak()))},
                             {"where", Html::text(fmt::format("step {}, {}", memory.fullest,
                                                              job.steps[memory.fullest].name),
                                                  120)},
                             {"plot", memory_plot(memory)},
                             {"holders", holders_of(job, memory)}});
}

}  // namespace

Html network_section(const Report& report) {
  Html pictures;
  std::set<std::string> seen;
  size_t drawn = 0, left_out = 0;
  for (const RunData& run : report.runs) {
    if (!run.job) continue;
    std::vector<const plan::Job*> jobs = plan::sub_jobs_of(*run.plan, *run.job);
    jobs.insert(jobs.begin(), run.job);
    for (const plan::Job* job : jobs) {
      // With the name of the run where there are several.
      const std::string name = report.runs.size() > 1 && !seen.empty() ? run.name : "";
      const Html picture = picture_of_job(run.directory, name, *job, drawn == 0);
      // The same network of another run is not drawn again.
      const size_t svg = picture.str().find("<svg");
      if (!seen.insert(job->name + picture.str().substr(std::min(svg, picture.str().size())))
               .second)
        continue;
      if (drawn == kMostNetworks) {
        ++left_out;
        continue;
      }
      pictures += picture;
      ++drawn;
    }
  }
  if (drawn == 0) return {};
  if (left_out > 0)
    pictures += fragment(
        "omitted",
        {{"text", Html::text(fmt::format("{} left out", counted(left_out, "other network")))}});
  return section("network", "Network", "", pictures);
}

Html memory_section(const Report& report) {
  for (const RunData& run : report.runs) {
    if (!run.job || run.job->steps.size() > kMostSteps) continue;
    const Html body = memory_of(*run.job);
    if (body.empty()) continue;
    const std::string of = report.runs.size() > 1 ? "job " + run.job->name + " of " + run.name
                                                  : "job " + run.job->name;
    return section("memory", "Memory", of + ", without workspaces and layouts of a backend", body);
  }
  return {};
}

}  // namespace flow::cli::report
