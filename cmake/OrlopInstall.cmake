# What `cmake --install` puts where: programs, liborlop.so with its header for C, for C++ the
# headers with one archive, the systemd unit with its user, the sample configuration, the dashboard.
# A room that has more (man page, completions) installs it itself.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# C++ users link the client's rooms as one archive. It promises no ABI: it fits the headers beside
# it, a C++23 compiler and the libstdc++ (GCC 12 or later) that it was built with. Who cannot keep to
# that uses the C API.
set(archive ${CMAKE_BINARY_DIR}/lib/liborlop_cpp.a)
set(rooms client session attach descriptor segment copy platform base)
set(script "create ${archive}\n")
set(files "")
foreach(room ${rooms})
  string(APPEND script "addlib $<TARGET_FILE:orlop_${room}>\n")
  list(APPEND files $<TARGET_FILE:orlop_${room}> orlop_${room})
endforeach()
string(APPEND script "save\nend\n")
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/lib/liborlop_cpp.mri CONTENT "${script}")
add_custom_command(OUTPUT ${archive}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
  COMMAND ${CMAKE_AR} -M < ${CMAKE_BINARY_DIR}/lib/liborlop_cpp.mri
  DEPENDS ${files} ${CMAKE_BINARY_DIR}/lib/liborlop_cpp.mri
  COMMENT "Merging liborlop_cpp.a" VERBATIM)
add_custom_target(orlop_cpp_archive ALL DEPENDS ${archive})

install(TARGETS orlop orlopd RUNTIME)
install(TARGETS orlop_shared EXPORT orlop LIBRARY)
install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/orlop DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")

# Both descriptions find the prefix from their own place, so that an installation may be moved.
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${CMAKE_SOURCE_DIR}/cmake/orlop.pc.in ${CMAKE_BINARY_DIR}/lib/orlop.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/lib/orlop.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/orlop)
install(EXPORT orlop NAMESPACE orlop:: FILE orlopTargets.cmake DESTINATION ${package})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/orlopConfig.cmake.in
  ${CMAKE_BINARY_DIR}/lib/orlopConfig.cmake INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lib/orlopConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lib/orlopConfig.cmake
  ${CMAKE_BINARY_DIR}/lib/orlopConfigVersion.cmake DESTINATION ${package})

# The unit names the folder of the programs, and `cmake --install --prefix` decides on it last; written
# where it goes, so that two installations at once do not get each other's. systemd looks into lib of
# /usr and /usr/local, whatever the libraries' folder is called.
set(packaging ${CMAKE_SOURCE_DIR}/packaging)
install(CODE "
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_PREFIX NORMALIZE OUTPUT_VARIABLE prefix)
  cmake_path(APPEND prefix \"${CMAKE_INSTALL_BINDIR}\" OUTPUT_VARIABLE ORLOP_BIN)
  set(unit \"\${prefix}/lib/systemd/system/orlop.service\")
  message(STATUS \"Installing: \$ENV{DESTDIR}\${unit}\")
  configure_file(\"${packaging}/systemd/orlop.service.in\" \"\$ENV{DESTDIR}\${unit}\" @ONLY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${unit}\")")
install(FILES ${packaging}/systemd/orlop.sysusers.conf DESTINATION lib/sysusers.d RENAME orlop.conf)
install(FILES ${packaging}/orlop.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/orlop)
install(FILES ${packaging}/grafana/orlop.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/orlop/grafana)
