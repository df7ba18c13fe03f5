# GPU code, when a CUDA toolkit is there: ORLOP_CUDA = AUTO (if found), ON (must be found) or OFF.
#   orlop_find_cuda()                   sets ORLOP_WITH_CUDA, ORLOP_CUDA_ROOT
#   orlop_cuda_objects(RESULT a.cu ...) object files of kernels, to be listed as SOURCES
# Kernels are few, so nvcc is called by itself: no second language to configure, and any C++ compiler
# for the rest (nvcc takes the system's g++). Binaries carry code for compute capability 9.0 and PTX
# for 8.0 and later; cudart is linked in, so they start where there is no CUDA.

set(ORLOP_CUDA AUTO CACHE STRING "GPU engines: AUTO, ON or OFF")
set_property(CACHE ORLOP_CUDA PROPERTY STRINGS AUTO ON OFF)

function(orlop_find_cuda)
  set(ORLOP_WITH_CUDA OFF PARENT_SCOPE)
  if(ORLOP_CUDA STREQUAL "OFF")
    return()
  endif()
  find_program(ORLOP_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  if(ORLOP_NVCC)
    cmake_path(GET ORLOP_NVCC PARENT_PATH root)
    cmake_path(GET root PARENT_PATH root)
    find_library(ORLOP_CUDART NAMES libcudart_static.a HINTS ${root}/lib64 ${root}/lib)
    find_path(ORLOP_CUDA_INCLUDE cuda_runtime_api.h HINTS ${root}/include)
  endif()
  if(ORLOP_NVCC AND ORLOP_CUDART AND ORLOP_CUDA_INCLUDE)
    set(ORLOP_WITH_CUDA ON PARENT_SCOPE)
    message(STATUS "GPU engines: ${ORLOP_NVCC}")
  elseif(ORLOP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "ORLOP_CUDA=ON, but nvcc, libcudart_static.a or cuda_runtime_api.h was not "
      "found; set CUDA_HOME")
  else()
    message(STATUS "GPU engines: no CUDA toolkit found, engine `host` only")
  endif()
endfunction()

function(orlop_cuda_objects result)
  set(objects "")
  foreach(source ${ARGN})
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${ORLOP_NVCC} -std=c++20 -O2 -lineinfo
        -gencode arch=compute_90,code=sm_90 -gencode arch=compute_80,code=compute_80
        -Werror all-warnings -Xcompiler -fPIC,-Wall,-fno-omit-frame-pointer
        -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/include
        -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      DEPFILE ${object}.d
      COMMENT "Compiling ${source} for the GPU" VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(${result} ${objects} PARENT_SCOPE)
endfunction()

# What C++ sources that call CUDA need; its headers are not ours to warn about.
function(orlop_use_cuda target)
  target_include_directories(${target} SYSTEM PRIVATE ${ORLOP_CUDA_INCLUDE})
  target_link_libraries(${target} PUBLIC ${ORLOP_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
endfunction()
