# Runs in cpack when the files of each package are in a folder, and adds what Debian asks for.
function(compress)
  execute_process(COMMAND gzip -9nf ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(package flow)
  if(NOT component STREQUAL "flow")
    set(package flow-${component})
  endif()
  set(share ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share)
  file(COPY ${CMAKE_CURRENT_LIST_DIR}/copyright DESTINATION ${share}/doc/${package})
  file(WRITE ${share}/doc/${package}/changelog
"flow (${CPACK_PACKAGE_VERSION}) unstable; urgency=low

  * CHANGELOG.md of the package flow has the changes.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  file(GLOB manuals ${share}/man/man*/*)
  compress(${share}/doc/${package}/changelog ${manuals})
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/lintian overrides REGEX "^(#|${package}:)")
  list(JOIN overrides "\n" overrides)
  file(WRITE ${share}/lintian/overrides/${package} "${overrides}\n")
endforeach()
