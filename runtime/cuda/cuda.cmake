# libflow_cuda.so, the CUDA backend as a module that programs open when a job asks for a GPU. It is
# left out, with one line that says why, where the toolkit, cuDNN or its C++ front end are missing.
set(FLOW_CUDA AUTO CACHE STRING "Build the CUDA module: AUTO, ON (or fail) or OFF")
set_property(CACHE FLOW_CUDA PROPERTY STRINGS AUTO ON OFF)
set(FLOW_CUDA_BUILT OFF)

# Sets flow_cuda_missing to what the build lacks; empty where it lacks nothing.
macro(flow_find_cuda)
  set(flow_cuda_missing "")
  find_package(CUDAToolkit 13.0 QUIET)
  find_path(CUBLAS_INCLUDE_DIR cublasLt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
  # setup.sh puts the front end there; versions before the one with this header are too old.
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend/backend/device_properties.h
    HINTS ${CMAKE_SOURCE_DIR}/build/cudnn-frontend/include)
  if(FLOW_SANITIZE OR FLOW_FUZZ)
    set(flow_cuda_missing "sanitizers and fuzzers do not build it")
  elseif(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cudart_static)
    set(flow_cuda_missing "no CUDA toolkit 13.0 or newer with cuBLASLt")
  elseif(NOT CUBLAS_INCLUDE_DIR)
    set(flow_cuda_missing "no headers of cuBLASLt (CUBLAS_INCLUDE_DIR says where)")
  elseif(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
    set(flow_cuda_missing "no cuDNN (CUDNN_INCLUDE_DIR and CUDNN_LIBRARY say where)")
  elseif(NOT EXISTS ${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend.h)
    set(flow_cuda_missing
      "no cuDNN front end (./setup.sh fetches it; CUDNN_FRONTEND_INCLUDE_DIR says where)")
  else()
    file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h numbers REGEX "define CUDNN_M(AJOR|INOR) ")
    string(REGEX REPLACE "[^0-9;]" "" numbers "${numbers}")
    list(JOIN numbers "." CUDNN_VERSION)
    if(CUDNN_VERSION VERSION_LESS 9.8)
      set(flow_cuda_missing "cuDNN ${CUDNN_VERSION} is older than 9.8")
    endif()
  endif()
endmacro()

if(FLOW_CUDA)  # false for OFF alone
  flow_find_cuda()
  if(flow_cuda_missing AND FLOW_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CUDA module: ${flow_cuda_missing}")
  elseif(flow_cuda_missing)
    message(STATUS "CUDA module: left out: ${flow_cuda_missing}")
  endif()
endif()
if(NOT FLOW_CUDA OR flow_cuda_missing)
  return()
endif()

# All code comes from one translation, since kernels use nothing that Turing lacks: PTX, which every
# driver compiles for its GPU, and machine code. `all` is for packages: Turing to Blackwell. Code for
# 8.0 runs on 8.6 and 8.9, too.
set(FLOW_CUDA_CODE native CACHE STRING
  "what nvcc makes of kernels: native (PTX, and code for the GPUs of this machine), all, or a list")
set(codes ${FLOW_CUDA_CODE})
if(codes STREQUAL "all")
  set(codes compute_75,sm_75,sm_80,sm_90,sm_100,sm_120)
elseif(codes STREQUAL "native")
  set(codes compute_75)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE found ERROR_QUIET)
  execute_process(COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} --list-gpu-code OUTPUT_VARIABLE known)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]" found "${found}")
  list(REMOVE_DUPLICATES found)
  foreach(gpu IN LISTS found)
    string(REPLACE "." "" gpu ${gpu})
    if(known MATCHES "sm_${gpu}\n")  # others are older than Turing, or newer than the toolkit
      string(APPEND codes ",sm_${gpu}")
    endif()
  endforeach()
endif()
if(CMAKE_CUDA_ARCHITECTURES)
  set(codes ${CMAKE_CUDA_ARCHITECTURES})
else()
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  set(flow_cuda_code --generate-code=arch=compute_75,code=[${codes}])
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # as in Debian 12
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
message(STATUS "CUDA module: CUDA ${CUDAToolkit_VERSION}, cuDNN ${CUDNN_VERSION}, ${codes}")

# flow_join_kernels(VARIABLE NAME FILE...): files that include several kernels each. Most kernels take
# nvcc less time than the headers that all of them share. (CMake before 3.31 joins no CUDA files.)
function(flow_join_kernels variable name)
  set(kernels ${ARGN})
  if(NOT CMAKE_UNITY_BUILD)
    set(${variable} ${kernels} PARENT_SCOPE)
    return()
  endif()
  set(batch 8)
  if(CMAKE_UNITY_BUILD_BATCH_SIZE)
    set(batch ${CMAKE_UNITY_BUILD_BATCH_SIZE})
  endif()
  set(joined "")
  list(LENGTH kernels count)
  math(EXPR last "${count} - 1")
  foreach(first RANGE 0 ${last} ${batch})
    list(SUBLIST kernels ${first} ${batch} part)
    list(TRANSFORM part REPLACE "(.+)" "#include \"\\1\"\n")
    list(JOIN part "" text)
    set(file ${CMAKE_BINARY_DIR}/generated/kernels/${name}_${first}.cu)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    list(APPEND joined ${file})
  endforeach()
  set_source_files_properties(${joined} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set(${variable} ${joined} PARENT_SCOPE)
endfunction()

# All of the module but its being one: tests link what they need of it.
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS runtime/cuda/*.cpp ops/cuda.cpp ops/cuda_*.cpp)
file(GLOB_RECURSE kernel_sources CONFIGURE_DEPENDS runtime/cuda/*.cu ops/*.cu)
# A kernel that keeps an array in memory is a defect, but for those that sin and cos reduce large
# numbers with and that a sum over copies counts axes in.
set(spilling_sources ${kernel_sources})
list(FILTER spilling_sources INCLUDE REGEX "/(pad|unary)/cuda\\.cu$")
list(REMOVE_ITEM kernel_sources ${spilling_sources})
flow_join_kernels(kernels kernels ${kernel_sources})
flow_join_kernels(spilling_kernels spilling ${spilling_sources})
add_library(flow_cuda_parts STATIC ${cuda_sources} ${kernels} ${spilling_kernels})
set_source_files_properties(${kernels} PROPERTIES
  COMPILE_OPTIONS -Xptxas=--warn-on-local-memory-usage)
set_target_properties(flow_cuda_parts PROPERTIES
  CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
# fmt 9 takes nvcc for a compiler without constexpr, and then does not compile.
target_compile_definitions(flow_cuda_parts PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
target_compile_options(flow_cuda_parts PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:
  # What the host runs of kernels' files only launches them.
  -Xcompiler=-O1
  # Kernels round as the CPU does; one that spills registers is a defect.
  ${flow_cuda_code} -fmad=false -Xptxas=--warn-on-spills -Xcompiler=-Wall,-Wextra
  $<$<BOOL:${FLOW_WERROR}>:-Xptxas=-Werror;-Werror=all-warnings>>)
target_include_directories(flow_cuda_parts SYSTEM PUBLIC
  ${CUDAToolkit_INCLUDE_DIRS} ${CUBLAS_INCLUDE_DIR} ${CUDNN_INCLUDE_DIR})
# NVRTC is the front end's wish. libcuda is not linked: the module has to load where there is none.
set(cuda_libraries flow_runtime CUDA::cublasLt ${CUDNN_LIBRARY} CUDA::nvrtc CUDA::cudart_static)
target_link_libraries(flow_cuda_parts PUBLIC ${cuda_libraries})
set_source_files_properties(runtime/cuda/libraries/cudnn.cpp PROPERTIES
  COMPILE_OPTIONS "-isystem${CUDNN_FRONTEND_INCLUDE_DIR};-O1")

add_library(flow_cuda MODULE $<TARGET_OBJECTS:flow_cuda_parts>)
target_link_libraries(flow_cuda PRIVATE ${cuda_libraries})
target_link_options(flow_cuda PRIVATE
  -Wl,--version-script=${CMAKE_SOURCE_DIR}/runtime/cuda/program/exports.map)
set_target_properties(flow_cuda PROPERTIES LINKER_LANGUAGE CXX
  LINK_DEPENDS ${CMAKE_SOURCE_DIR}/runtime/cuda/program/exports.map)
set(FLOW_CUDA_BUILT ON)
