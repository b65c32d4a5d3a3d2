# Runs last in `cmake --install`.
if(flow_replaced)
  message(STATUS "installed flow ${flow_version} to ${flow_prefix}, in place of ${flow_replaced}")
else()
  message(STATUS "installed flow ${flow_version} to ${flow_prefix}")
endif()
