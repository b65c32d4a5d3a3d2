# libflow_openmpi.so and libflow_mpich.so: runtime/mpi compiled for each MPI library, as modules that
# `flowrun --distributed` opens. One is left out, with a line that says why, where its library is
# missing. CMake's FindMPI finds only one library, the system's default.
set(FLOW_OPENMPI AUTO CACHE STRING "Build the Open MPI module: AUTO, ON (or fail) or OFF")
set(FLOW_MPICH AUTO CACHE STRING "Build the MPICH module: AUTO, ON (or fail) or OFF")
set_property(CACHE FLOW_OPENMPI FLOW_MPICH PROPERTY STRINGS AUTO ON OFF)
file(GLOB mpi_sources CONFIGURE_DEPENDS runtime/mpi/*.cpp)

# flow_mpi_module(NAME TITLE HEADERS LIBRARY FOLDER): Debian's headers and library. Paths of others
# are set by hand: each library may be called libmpi.so.
function(flow_mpi_module name title headers library folder)
  string(TOUPPER ${name} NAME)
  set(FLOW_${NAME}_BUILT OFF PARENT_SCOPE)
  if(NOT FLOW_${NAME})
    return()
  endif()
  find_path(${NAME}_INCLUDE_DIR mpi.h PATHS ${headers} NO_DEFAULT_PATH)
  find_library(${NAME}_LIBRARY ${library} PATHS ${folder} NO_DEFAULT_PATH)
  if(NOT ${NAME}_INCLUDE_DIR OR NOT ${NAME}_LIBRARY)
    set(missing "no ${title} (${NAME}_INCLUDE_DIR and ${NAME}_LIBRARY say where)")
    if(FLOW_${NAME} STREQUAL "ON")
      message(FATAL_ERROR "${title} module: ${missing}")
    endif()
    message(STATUS "${title} module: left out: ${missing}")
    return()
  endif()
  message(STATUS "${title} module: ${${NAME}_LIBRARY}")

  add_library(flow_${name} MODULE ${mpi_sources})
  target_include_directories(flow_${name} SYSTEM PRIVATE ${${NAME}_INCLUDE_DIR})
  # The C++ interface of MPI is long gone; its headers need not be read.
  target_compile_definitions(flow_${name} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_link_libraries(flow_${name} PRIVATE flow_runtime ${${NAME}_LIBRARY})
  set(FLOW_${NAME}_BUILT ON PARENT_SCOPE)
endfunction()

set(debian /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
flow_mpi_module(openmpi "Open MPI" ${debian}/openmpi/include mpi ${debian}/openmpi/lib)
flow_mpi_module(mpich "MPICH" /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/mpich mpich ${debian})
