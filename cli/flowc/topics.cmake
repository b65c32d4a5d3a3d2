# Writes topics.cpp: docs/tutorial.md and docs/guide/*.md as the table of cli/flowc/flowc.h.
file(GLOB guides ${SOURCE}/docs/guide/*.md)
list(SORT guides)
if(EXISTS ${SOURCE}/docs/tutorial.md)
  list(PREPEND guides ${SOURCE}/docs/tutorial.md)
endif()
set(rows "")
foreach(guide IN LISTS guides)
  get_filename_component(name ${guide} NAME_WE)
  file(READ ${guide} text)
  string(APPEND rows "    {\"${name}\", R\"~~~(${text})~~~\"},\n")
endforeach()
file(WRITE ${OUT} "// Written by cli/flowc/topics.cmake.
#include \"cli/flowc/flowc.h\"

namespace flow::cli {

std::span<const Guide> guides() {
  static constexpr Guide kGuides[] = {
${rows}      {\"\", \"\"}};  // so that there is one, whatever docs/ has
  return std::span(kGuides).first(std::size(kGuides) - 1);
}

}  // namespace flow::cli
")
