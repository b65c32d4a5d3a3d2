// Makes the boxes of a picture from a job, and writes the picture in Graphviz's language and as
// SVG.
#include "cli/show/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "cli/shared/reports.h"
#include "cli/show/job_tree.h"
#include "cli/show/show.h"
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

  /// Adds one box for all hooks and returns that read the same box.
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
  std::vector<size_t> box_of_;  // indexed by entry: its box, or the box in which it is shown
  std::map<std::pair<size_t, size_t>, Link> links_;
  Picture picture_;
};

std::string quoted(const std::vector<std::string>& lines) {
  std::vector<std::string> texts;
  for (const std::string& line : lines)
    texts.push_back(replaced(line, {{'"', "\\\""}, {'\\', "\\\\"}}));
  return '"' + join(texts, "\\n") + '"';
}

// The styles of boxes, indexed by Look. A box with two peripheries is a network whose entries are
// shown elsewhere.
constexpr std::array kStyles = {"", ", style=rounded", ", peripheries=2", ", style=dashed"};
constexpr std::array kClasses = {"op", "input", "network", "hook"};

void write_box(const Picture& picture, size_t i, size_t depth, std::string& text) {
  const Box& box = picture.boxes[i];
  const std::string indent(2 * depth, ' ');
  if (box.inside.empty()) {
    text += fmt::format("{}n{} [label={}{}{}];\n", indent, i, quoted(box.lines),
                        kStyles[static_cast<size_t>(box.look)], box.trained ? ", penwidth=2" : "");
    return;
  }
  if (i > 0)
    text += fmt::format("{}subgraph cluster_{} {{\n{}  label={};\n", indent, i, indent,
                        quoted(box.lines));
  for (const size_t inside : box.inside) write_box(picture, inside, depth + (i > 0), text);
  if (i > 0) text += indent + "}\n";
}

/// Returns the first or last box inside a cluster, which represents it at an end of an edge.
size_t within(const Picture& picture, size_t box, bool last) {
  while (!picture.boxes[box].inside.empty())
    box = last ? picture.boxes[box].inside.back() : picture.boxes[box].inside.front();
  return box;
}

bool is_inside(const Picture& picture, size_t box, size_t other) {
  while (box != 0 && box != other) box = picture.boxes[box].parent;
  return box == other;
}

// All rules apply only to this drawing, because a page may also contain other elements.
constexpr std::string_view kStyle = R"(<style>
.picture { color-scheme: light dark; --back: #fff; --text: #1f2328; --faint: #59636e; --line: #818b98;
  --box: #fff; --input: #ddf4ff; --network: #8c959f1a; --hook: #fff8c5; --gradient: #bc4c00 }
@media (prefers-color-scheme: dark) {
  .picture { --back: #0d1117; --text: #f0f6fc; --faint: #9198a1; --line: #656c76;
    --box: #151b23; --input: #0c2d6b; --network: #9198a11a; --hook: #341a00; --gradient: #f0883e }
}
.picture text { font: 12px monospace; fill: var(--faint); white-space: pre }
.picture .name { font-weight: bold; fill: var(--text) }
.picture rect { fill: var(--box); stroke: var(--line) }
.picture .back { fill: var(--back); stroke: none }
.picture .input { fill: var(--input) }
.picture .network { fill: var(--network) }
.picture .hook { fill: var(--hook); stroke-dasharray: 4 }
.picture .trained { stroke: var(--gradient); stroke-width: 2 }
.picture path { fill: none; stroke: var(--line); stroke-width: 1.3 }
.picture .gradient { stroke: var(--gradient); stroke-dasharray: 4 3 }
.picture marker path { fill: var(--line); stroke: none }
.picture marker .of_gradient { fill: var(--gradient) }
</style>
<defs>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker>
<marker id="back" viewBox="0 0 8 8" refX="1" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="of_gradient" d="M8 0 0 4 8 8z"/></marker>
</defs>
)";

std::string as_xml(const std::string& text) {
  return replaced(text, {{'&', "&amp;"}, {'<', "&lt;"}});
}

std::string text_at(int x, int y, bool name, const std::string& text) {
  return fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", x, y, name ? " class=\"name\"" : "",
                     as_xml(text));
}

std::string svg_of(const Box& box, const Placed::Rectangle& at) {
  std::string text =
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" class=\"{}{}\"/>\n",
                  at.x, at.y, at.width, at.height, box.look == Look::kInput ? 14 : 5,
                  kClasses[static_cast<size_t>(box.look)], box.trained ? " trained" : "");
  int x = at.x + Placed::kPadding, y = at.y + Placed::kPadding + Placed::kLine - 4;
  for (size_t i = 0; i < box.lines.size(); ++i) {
    text += text_at(x, y, i == 0 && box.look != Look::kHook, box.lines[i]);
    if (box.inside.empty())
      y += Placed::kLine;
    else
      x += (width_of(box.lines[i]) + 2) * Placed::kCharacter;  // a title has only one line
  }
  return text;
}

std::string svg_of(const Placed::Route& route) {
  std::string text =
      fmt::format("<path d=\"{}\" marker-end=\"url(#head)\"><title>{}</title></path>\n", route.path,
                  as_xml(route.label));
  if (route.gradient)
    text += fmt::format(
        "<path d=\"{}\" class=\"gradient\" transform=\"translate(9)\" "
        "marker-start=\"url(#back)\"/>\n",
        route.path);
  return text;
}

}  // namespace

Picture picture_of(const plan::Job& job, const JobTree& tree, const PictureOptions& options) {
  return PictureBuilder(job, tree, options).run();
}

std::string to_dot(const Picture& picture) {
  std::string text = fmt::format(
      "digraph {} {{\n  compound=true;\n  node [shape=box, fontname=monospace];\n"
      "  graph [fontname=monospace, labeljust=l];\n",
      quoted({picture.name}));
  write_box(picture, 0, 1, text);
  for (const Link& link : picture.links) {
    if (is_inside(picture, link.from, link.to) || is_inside(picture, link.to, link.from)) continue;
    const size_t from = within(picture, link.from, true), to = within(picture, link.to, false);
    text += fmt::format("  n{} -> n{} [tooltip={}{}{}{}];\n", from, to, quoted({link.label}),
                        from == link.from ? "" : fmt::format(", ltail=cluster_{}", link.from),
                        to == link.to ? "" : fmt::format(", lhead=cluster_{}", link.to),
                        link.gradient ? ", dir=both" : "");
  }
  return text + "}\n";
}

std::string to_svg(const Picture& picture) {
  const Placed placed = place(picture);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} "
      "{1}\">\n{2}<rect width=\"100%\" height=\"100%\" class=\"back\"/>\n",
      placed.boxes[0].width, placed.boxes[0].height, kStyle);
  for (size_t i = 1; i < picture.boxes.size(); ++i)
    text += svg_of(picture.boxes[i], placed.boxes[i]);
  for (const Placed::Route& route : placed.routes) text += svg_of(route);
  return text + "</svg>\n";
}

}  // namespace flow::cli
