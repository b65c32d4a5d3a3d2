# Writes templates.cpp: the texts of jobs/*.yaml and the names of jobs/data/*, as the tables of
# cli/flowc/flowc.h.
file(GLOB jobs ${SOURCE}/jobs/*.yaml)
list(SORT jobs)
set(rows "")
foreach(job IN LISTS jobs)
  get_filename_component(name ${job} NAME_WE)
  file(READ ${job} text)
  # Where the schema is found depends on where the copy goes.
  string(REGEX REPLACE "^# yaml-language-server:[^\n]*\n" "" text "${text}")
  string(APPEND rows "    {\"${name}\", R\"~~~(${text})~~~\"},\n")
endforeach()
set(folders data/houses data/mnist data/prose data/shapes)
list(JOIN folders "\", \"" folders)
file(WRITE ${OUT} "// Written by cli/flowc/templates.cmake.
#include \"cli/flowc/flowc.h\"

namespace flow::cli {

std::span<const Template> templates() {
  static constexpr Template kTemplates[] = {
${rows}  };
  return kTemplates;
}

std::span<const std::string_view> data_folders() {
  static constexpr std::string_view kFolders[] = {\"${folders}\"};
  return kFolders;
}

}  // namespace flow::cli
")
