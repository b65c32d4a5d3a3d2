// A picture as an SVG.
#include <fmt/format.h>

#include "cli/show/picture.h"
#include "cli/show/picture_layout.h"
#include "runtime/base/display.h"

namespace flow::cli {
namespace {

// Each rule is for this drawing only: a page may have it among others.
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
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

const char* class_of(Look look) {
  switch (look) {
    case Look::kOp:
      return "op";
    case Look::kInput:
      return "input";
    case Look::kNetwork:
      return "network";
    case Look::kHook:
      return "hook";
  }
  return "";
}

std::string text_at(int x, int y, bool name, const std::string& text) {
  return fmt::format("<text x=\"{}\" y=\"{}\"{}>{}</text>\n", x, y, name ? " class=\"name\"" : "",
                     as_xml(text));
}

std::string svg_of(const Box& box, const Placed::Rectangle& at) {
  std::string text =
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\" class=\"{}{}\"/>\n",
                  at.x, at.y, at.width, at.height, box.look == Look::kInput ? 14 : 5,
                  class_of(box.look), box.trained ? " trained" : "");
  int x = at.x + Placed::kPadding, y = at.y + Placed::kPadding + Placed::kLine - 4;
  for (size_t i = 0; i < box.lines.size(); ++i) {
    text += text_at(x, y, i == 0 && box.look != Look::kHook, box.lines[i]);
    if (box.inside.empty())
      y += Placed::kLine;
    else
      x += (width_of(box.lines[i]) + 2) * Placed::kCharacter;  // a title is one line
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
