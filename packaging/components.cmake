# Runs first in cpack: modules that are not built have no package.
foreach(module cuda openmpi mpich)
  if(NOT EXISTS "${CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS}/libflow_${module}.so")
    list(REMOVE_ITEM CPACK_COMPONENTS_ALL ${module})
  endif()
endforeach()
