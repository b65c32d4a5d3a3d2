// A picture in Graphviz's language.
#include <fmt/format.h>

#include "cli/show/picture.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

std::string quoted(const std::vector<std::string>& lines) {
  std::string text = "\"";
  for (const std::string& line : lines) {
    if (text.size() > 1) text += "\\n";
    for (const char c : line) {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
  }
  return text + "\"";
}

const char* style_of(Look look) {
  switch (look) {
    case Look::kOp:
      return "";
    case Look::kInput:
      return ", style=rounded";
    case Look::kNetwork:
      return ", peripheries=2";  // one that is shown elsewhere
    case Look::kHook:
      return ", style=dashed";
  }
  return "";
}

void write_box(const Picture& picture, size_t i, size_t depth, std::string& text) {
  const Box& box = picture.boxes[i];
  const std::string indent(2 * depth, ' ');
  if (box.inside.empty()) {
    text += fmt::format("{}n{} [label={}{}{}];\n", indent, i, quoted(box.lines), style_of(box.look),
                        box.trained ? ", penwidth=2" : "");
    return;
  }
  if (i > 0)
    text += fmt::format("{}subgraph cluster_{} {{\n{}  label={};\n", indent, i, indent,
                        quoted(box.lines));
  for (const size_t inside : box.inside) write_box(picture, inside, depth + (i > 0), text);
  if (i > 0) text += indent + "}\n";
}

/// A box that stands for a cluster at an end of an edge.
size_t within(const Picture& picture, size_t box, bool last) {
  while (!picture.boxes[box].inside.empty())
    box = last ? picture.boxes[box].inside.back() : picture.boxes[box].inside.front();
  return box;
}

bool is_inside(const Picture& picture, size_t box, size_t other) {
  while (box != 0 && box != other) box = picture.boxes[box].parent;
  return box == other;
}

}  // namespace

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

}  // namespace flow::cli
