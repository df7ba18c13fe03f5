# How every room is built:
#   orlop_room(NAME SOURCES ... [DEPS ...])        static library orlop_NAME
#   orlop_test(NAME SOURCES ... [DEPS ...] [LABEL label] [TIMEOUT s])  GoogleTest binary NAME, registered with ctest
#   SIMULATION on either: built a second time as orlop_NAME_sim with ORLOP_SIMULATION (instrumented
#   atomics, planted bugs); only rooms base, segment, eviction and protocol have that variant.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
find_package(GTest REQUIRED)
find_package(Threads REQUIRED)
add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 warns falsely inside std::string::insert, replace and operator+ (GCC bug 105651).
  add_compile_options(-Wno-restrict)
endif()

function(orlop_library target simulation)
  cmake_parse_arguments(R "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${target} STATIC ${R_SOURCES})
  if(simulation)
    target_compile_definitions(${target} PUBLIC ORLOP_SIMULATION ORLOP_DCHECK)
  endif()
  target_link_libraries(${target} PUBLIC ${R_DEPS})
endfunction()

function(orlop_room name)
  cmake_parse_arguments(R "SIMULATION" "" "SOURCES;DEPS" ${ARGN})
  orlop_library(orlop_${name} OFF SOURCES ${R_SOURCES} DEPS ${R_DEPS})
  if(R_SIMULATION)
    set(deps "")
    foreach(dep ${R_DEPS})
      if(TARGET ${dep}_sim)
        list(APPEND deps ${dep}_sim)
      else()
        list(APPEND deps ${dep})
      endif()
    endforeach()
    orlop_library(orlop_${name}_sim ON SOURCES ${R_SOURCES} DEPS ${deps})
  endif()
endfunction()

include(GoogleTest)
function(orlop_test name)
  cmake_parse_arguments(R "" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${R_SOURCES})
  target_link_libraries(${name} PRIVATE ${R_DEPS} GTest::gtest_main GTest::gmock Threads::Threads)
  if(NOT R_LABEL)
    set(R_LABEL unit)
  endif()
  if(NOT R_TIMEOUT)
    set(R_TIMEOUT 60)
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${R_LABEL}" TIMEOUT ${R_TIMEOUT})
endfunction()
