# What the build takes when it is there: ccache, the mold linker; sanitizers when asked for.
# Included before project(), so that nothing here may ask for the compiler; see orlop_use_tools().

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

find_program(ORLOP_CCACHE ccache)
if(ORLOP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${ORLOP_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ORLOP_CCACHE})
endif()

option(ORLOP_DCHECK "Keep the assertions of hot paths (DCHECK)" OFF)
set(ORLOP_SANITIZE "" CACHE STRING "address,undefined or thread; empty for none")

function(orlop_use_tools)
  # No NDEBUG in any build: what it would remove is not ours, and CHECK stays on.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g" PARENT_SCOPE)

  find_program(ORLOP_MOLD mold)
  if(ORLOP_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()

  if(ORLOP_DCHECK)
    add_compile_definitions(ORLOP_DCHECK)
  endif()
  if(ORLOP_SANITIZE)
    # O1 keeps stacks readable and halves compile time; a finding ends the process.
    set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1" PARENT_SCOPE)
    add_compile_options(-fsanitize=${ORLOP_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${ORLOP_SANITIZE})
  endif()
endfunction()
