# Writes report_page.cpp: the files of cli/report/page as the texts of cli/report/page.h.
file(READ ${SOURCE}/cli/report/page/fragments.html fragments)
file(READ ${SOURCE}/cli/report/page/report.css style)
file(READ ${SOURCE}/cli/report/page/plot.js plot)
file(READ ${SOURCE}/cli/report/page/report.js script)
file(WRITE ${OUT} "// Written by cli/report/page.cmake.
#include \"cli/report/page.h\"

namespace flow::cli::report::page {

const std::string_view kFragments = R\"~~~(${fragments})~~~\";
const std::string_view kStyle = R\"~~~(${style})~~~\";
const std::string_view kScript = R\"~~~(${plot}${script})~~~\";

}  // namespace flow::cli::report::page
")
