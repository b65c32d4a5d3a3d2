# `cmake --install` and the Debian packages. What is installed is found relative to the programs, so
# that the prefix can be moved.
include(GNUInstallDirs)
set(CMAKE_INSTALL_MESSAGE NEVER)  # packaging/prefix.cmake and summary.cmake say what matters

# An install(CODE) that has these variables; of a script, an error would come with a stack of calls.
function(flow_install_code file)
  file(READ ${CMAKE_SOURCE_DIR}/packaging/${file} code)
  string(CONFIGURE [[
set(flow_version "@PROJECT_VERSION@")
set(flow_bin "@CMAKE_INSTALL_BINDIR@")
set(flow_lib "@CMAKE_INSTALL_LIBDIR@")
set(flow_data "@CMAKE_INSTALL_DATADIR@")
set(flow_build "@CMAKE_BINARY_DIR@")
set(flow_cuda "@FLOW_CUDA_BUILT@")
set(flow_openmpi "@FLOW_OPENMPI_BUILT@")
set(flow_mpich "@FLOW_MPICH_BUILT@")
]] variables @ONLY)
  install(CODE "${variables}${code}" COMPONENT flow)
endfunction()
flow_install_code(prefix.cmake)

# The loader does not look there: what links a library finds it by a path relative to itself.
set(libraries ${CMAKE_INSTALL_LIBDIR}/flow)
file(RELATIVE_PATH to_lib /${CMAKE_INSTALL_BINDIR} /${libraries})
set_target_properties(flowc flowrun flowdiff PROPERTIES INSTALL_RPATH "$ORIGIN/${to_lib}")
install(TARGETS flowc flowrun flowdiff RUNTIME COMPONENT flow)
install(TARGETS flow_runtime LIBRARY DESTINATION ${libraries} COMPONENT flow)
if(TARGET flow_cuda)
  # NVIDIA's libraries stay where the build found them.
  set_target_properties(flow_cuda PROPERTIES INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS flow_cuda LIBRARY DESTINATION ${libraries} COMPONENT cuda OPTIONAL)
endif()

foreach(module openmpi mpich)
  if(TARGET flow_${module})
    set_target_properties(flow_${module} PROPERTIES
      INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS flow_${module} LIBRARY DESTINATION ${libraries} COMPONENT ${module} OPTIONAL)
  endif()
endforeach()

# Programs of others link the library: pkg-config --cflags --libs flow
foreach(folder ops runtime/base runtime/plan runtime/io runtime/data runtime/exec)
  cmake_path(GET folder PARENT_PATH parent)
  install(DIRECTORY ${folder} COMPONENT flow
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/flow/${parent}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.def"
    REGEX ${parts_of_ops} EXCLUDE)
endforeach()
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(packaging/flow.pc.in flow.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/flow.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT flow)

set(share ${CMAKE_INSTALL_DATADIR}/flow)
install(DIRECTORY schemas jobs DESTINATION ${share} COMPONENT flow USE_SOURCE_PERMISSIONS
  PATTERN quickstart.sh EXCLUDE PATTERN __pycache__ EXCLUDE PATTERN runs EXCLUDE)
# Debian's python3 finds it there below /usr; others get the path from pkg-config.
install(FILES jobs/hooks/flowhook.py DESTINATION lib/python3/dist-packages COMPONENT flow)

install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR}
  COMPONENT flow)
install(FILES packaging/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT flow)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT flow
  PATTERN "*.py" EXCLUDE PATTERN __pycache__ EXCLUDE)

# Man pages, completions and the reference, from the same tables as --help.
set(manuals ${CMAKE_BINARY_DIR}/manuals)
add_custom_command(OUTPUT ${manuals}/stamp VERBATIM
  COMMAND flow_reference man $<TARGET_FILE_DIR:flowc> ${manuals}/man
  COMMAND flow_reference completions $<TARGET_FILE_DIR:flowc> ${manuals}/completions
  COMMAND flow_reference write $<TARGET_FILE_DIR:flowc> ${manuals}/reference
  COMMAND ${CMAKE_COMMAND} -E touch ${manuals}/stamp
  DEPENDS flow_reference flowc flowrun flowdiff)
# Nobody installs what sanitizers were built into.
if(FLOW_SANITIZE)
  add_custom_target(manuals DEPENDS ${manuals}/stamp)
else()
  add_custom_target(manuals ALL DEPENDS ${manuals}/stamp)
endif()
install(FILES ${manuals}/man/flowc.1 ${manuals}/man/flowrun.1 ${manuals}/man/flowdiff.1
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT flow)
install(DIRECTORY ${manuals}/reference DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT flow)
install(FILES ${manuals}/man/flow-job.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT flow)
set(completions ${manuals}/completions)
install(DIRECTORY ${completions}/bash/ COMPONENT flow
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(DIRECTORY ${completions}/fish/ COMPONENT flow
  DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(DIRECTORY ${completions}/zsh/ COMPONENT flow
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
# Debian's zsh reads those of packages elsewhere.
install(DIRECTORY ${completions}/zsh/ COMPONENT flow
  DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
flow_install_code(summary.cmake)

# cpack --config build/release/CPackConfig.cmake
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME flow)
set(CPACK_PACKAGE_CONTACT "The flow developers <flow@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "neural networks from YAML job files")
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/packaging/components.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/packaging/debian.cmake)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL flow)
foreach(module cuda openmpi mpich)
  if(TARGET flow_${module})
    list(APPEND CPACK_COMPONENTS_ALL ${module})
  endif()
endforeach()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_FLOW_PACKAGE_NAME flow)
set(CPACK_DEBIAN_FLOW_PACKAGE_SUGGESTS "python3-numpy, flow-cuda, flow-openmpi, flow-mpich")
set(CPACK_DEBIAN_FLOW_DESCRIPTION
"flowc checks a job file and compiles it to a plan, flowrun executes the plan
 and writes .npy files, flowdiff compares two runs.")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME flow-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "flow (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS "libcudnn9-cuda-13")
set(CPACK_DEBIAN_CUDA_DESCRIPTION
"This package has the module with which flowrun computes on GPUs of NVIDIA. It
 needs the libraries of CUDA 13 and cuDNN 9.")
set(CPACK_DEBIAN_OPENMPI_PACKAGE_NAME flow-openmpi)
set(CPACK_DEBIAN_OPENMPI_PACKAGE_DEPENDS "flow (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_OPENMPI_PACKAGE_RECOMMENDS "openmpi-bin")
set(CPACK_DEBIAN_OPENMPI_DESCRIPTION
"This package has the module with which flowrun runs a job on several processes
 and machines, by Open MPI.")
set(CPACK_DEBIAN_MPICH_PACKAGE_NAME flow-mpich)
set(CPACK_DEBIAN_MPICH_PACKAGE_DEPENDS "flow (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_MPICH_PACKAGE_RECOMMENDS "mpich")
set(CPACK_DEBIAN_MPICH_DESCRIPTION
"This package has the module with which flowrun runs a job on several processes
 and machines, by MPICH.")
include(CPack)
