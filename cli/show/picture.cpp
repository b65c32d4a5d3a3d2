// Boxes for folded entries, and links for what flows between them.
#include "cli/show/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/show/folded_tree.h"
#include "cli/show/plan_text.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/shards.h"

namespace flow::cli {
namespace {

class PictureBuilder {
 public:
  PictureBuilder(const plan::Job& job, const JobTree& tree, const PictureOptions& options)
      : job_(job), tree_(tree), options_(options), box_of_(tree.entries.size()) {
    picture_.name = escaped(job.name);
    picture_.boxes.push_back({Look::kNetwork, {picture_.name}, 0, {}, false});
  }

  Picture run() {
    for (const Folded& part : fold(tree_, job_, options_.all).inside) add(part, 0);
    for (size_t i = 1; i < box_of_.size(); ++i)
      if (box_of_[i] == 0) box_of_[i] = box_of_[tree_.entries[i].parent];
    for (const Flow& flow : tree_.flows)
      link(box_of_[flow.from], box_of_[flow.to], type_of(job_, job_[flow.tensor]),
           options_.gradients && tree_.entries[flow.from].gradient &&
               tree_.entries[flow.to].gradient);
    if (options_.hooks) add_hooks();
    for (auto& [ends, made] : links_) picture_.links.push_back(std::move(made));
    return std::move(picture_);
  }

 private:
  size_t add_box(size_t parent, Look look, std::vector<std::string> lines) {
    for (std::string& line : lines) line = escaped(line);
    picture_.boxes.push_back({look, std::move(lines), parent, {}, false});
    picture_.boxes[parent].inside.push_back(picture_.boxes.size() - 1);
    return picture_.boxes.size() - 1;
  }

  void add(const Folded& part, size_t parent) {
    const Entry& entry = tree_.entries[part.entry];
    std::string name = part.name;
    if (part.copies > 1) name += fmt::format(" x {}", part.copies);
    std::vector<std::string> lines = {name};
    std::string op = entry.op;
    if (!part.shown_at.empty()) op += (op.empty() ? "as " : ", as ") + part.shown_at;
    if (!op.empty()) lines.push_back(op);
    std::string takes;
    if (entry.output.valid()) takes = plan::whole_shape(job_, job_[entry.output]).str();
    if (part.parameters > 0)
      takes += fmt::format("{}{} params", takes.empty() ? "" : ", ",
                           human_count(static_cast<double>(part.parameters)));
    if (!takes.empty()) lines.push_back(takes);
    if (plan::has_two_devices(job_) && part.inside.empty())
      lines.push_back(fmt::format("on {}", name_of(entry.device)));
    const bool input = std::ranges::binary_search(tree_.inputs, part.entry);
    const size_t box = add_box(parent,
                               input           ? Look::kInput
                               : entry.network ? Look::kNetwork
                                               : Look::kOp,
                               std::move(lines));
    picture_.boxes[box].trained = options_.gradients && entry.gradient;
    for (const size_t member : part.members) box_of_[member] = box;
    for (const Folded& inside : part.inside) add(inside, box);
  }

  void link(size_t from, size_t to, std::string label, bool gradient) {
    if (from == 0 || to == 0 || from == to) return;
    Link& made =
        links_.try_emplace({from, to}, Link{from, to, false, std::move(label)}).first->second;
    made.gradient |= gradient;
  }

  /// A box for all that hooks and the return read of one box.
  void add_hooks() {
    std::map<size_t, std::vector<std::string>> texts;
    for (const plan::Hook& hook : job_.hooks)
      texts[box_of_[tree_.find(hook.name)]].push_back(
          fmt::format("{} {}: {}", hook.kind == plan::Hook::Kind::kWatch ? "watch" : "watch_diff",
                      hook.name, sinks_text(hook.sinks)));
    if (job_.returns) add_return(job_.returns->value, texts);
    constexpr size_t kMostLines = 6;
    for (auto& [box, lines] : texts) {
      if (lines.size() > kMostLines) {
        const std::string rest = fmt::format("and {} more", lines.size() - kMostLines + 1);
        lines.resize(kMostLines - 1);
        lines.push_back(rest);
      }
      for (std::string& line : lines) line = shortened(line);
      const size_t hook = add_box(picture_.boxes[box].parent, Look::kHook, std::move(lines));
      link(box, hook, "", false);
    }
  }

  void add_return(const plan::ReturnValue& value,
                  std::map<size_t, std::vector<std::string>>& texts) {
    if (value.is_leaf())
      texts[box_of_[tree_.find(value.name)]].push_back(
          fmt::format("return {}: {}", value.name, sinks_text(job_.returns->sinks)));
    for (const plan::ReturnValue& item : value.items) add_return(item, texts);
  }

  const plan::Job& job_;
  const JobTree& tree_;
  const PictureOptions options_;
  std::vector<size_t> box_of_;  // by entry: its own, or the one that it is shown in
  std::map<std::pair<size_t, size_t>, Link> links_;
  Picture picture_;
};

}  // namespace

Picture picture_of(const plan::Job& job, const JobTree& tree, const PictureOptions& options) {
  return PictureBuilder(job, tree, options).run();
}

}  // namespace flow::cli
