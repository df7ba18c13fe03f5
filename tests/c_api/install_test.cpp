// SPDX-License-Identifier: Apache-2.0
// An installation in a folder of its own, used by programs that know nothing of our tree.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "daemon.h"
#include "platform/runtime_dir.h"
#include "shell.h"

namespace orlop::c_api_test {
namespace {

using process_test::Daemon;
using process_test::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;

class Installed : public ::testing::Test {
 protected:
  void SetUp() override {
    // An instrumented library cannot be linked into a program that is not.
    if (std::string(ORLOP_SANITIZE) != "") GTEST_SKIP() << "installed builds have no sanitizer";
    const Said said = shell("cmake --install " ORLOP_BINARY_DIR " --prefix " + prefix());
    ASSERT_EQ(said.status, 0) << said.text;
    ASSERT_TRUE(daemon_.wait_serving()) << daemon_.log();
  }
  std::string prefix() const { return folder_.path() + "/prefix"; }
  std::string content(const std::string& file) const {
    std::ifstream in(prefix() + "/" + file);
    EXPECT_TRUE(in) << file;
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string work(const std::string& name) const { return folder_.path() + "/" + name; }
  Said run(const std::string& program) { return shell(program + " " + daemon_.socket()); }

  TemporaryFolder folder_;
  Daemon daemon_{folder_.path()};
};

TEST_F(Installed, Has_the_programs_and_the_headers) {
  for (const char* file :
       {"bin/orlop", "bin/orlopd", "include/orlop/orlop.h", "include/orlop/client.h",
        "lib/liborlop.so", "lib/liborlop_cpp.a", "lib/pkgconfig/orlop.pc",
        "lib/cmake/orlop/orlopConfig.cmake", "lib/cmake/orlop/orlopConfigVersion.cmake",
        "share/orlop/grafana/orlop.json"})
    EXPECT_TRUE(std::filesystem::exists(prefix() + "/" + file)) << file;
  const Said said = shell(prefix() + "/bin/orlop version");
  EXPECT_EQ(said.status, 0) << said.text;
}

// What docs/guide/install.md does with a service, as far as it goes without systemd.
TEST_F(Installed, Unit_runs_the_installed_program_as_the_user_that_comes_with_it) {
  const std::string unit = content("lib/systemd/system/orlop.service");
  EXPECT_THAT(unit, HasSubstr("\nExecStart=" + prefix() +
                              "/bin/orlop serve --config /etc/orlop/orlop.toml\n"));
  EXPECT_THAT(unit, Not(HasSubstr("@ORLOP_BIN@")));
  EXPECT_THAT(unit, HasSubstr("\nUser=orlop\n"));
  // In [Unit]; [Service] does not know it.
  EXPECT_LT(unit.find("\nStartLimitIntervalSec=0\n"), unit.find("\n[Service]\n"));
  EXPECT_THAT(content("lib/sysusers.d/orlop.conf"), HasSubstr("\nu orlop "));
  const Said said =
      shell(prefix() + "/bin/orlop config check " + prefix() + "/share/orlop/orlop.toml");
  EXPECT_EQ(said.status, 0) << said.text;
}

TEST_F(Installed, Unit_leaves_the_socket_to_the_configuration) {
  EXPECT_THAT(content("lib/systemd/system/orlop.service"), Not(HasSubstr("\nEnvironment=ORLOP_")));
  const SocketPlace place =
      default_socket_place({.orlop_socket = {}, .xdg_runtime_dir = "/run", .uid = 7});
  EXPECT_THAT(content("lib/systemd/system/orlop.service"),
              HasSubstr("\nEnvironment=XDG_RUNTIME_DIR=/run\n"));
  EXPECT_EQ(place.socket_path, "/run/orlop/orlop.sock");
  // RuntimeDirectory= has made it, with a mode that lets clients in.
  EXPECT_FALSE(place.folder_must_be_ours);
}

TEST_F(Installed, C_program_builds_with_pkg_config_alone) {
  // Copied away, so that nothing beside it helps.
  std::filesystem::copy_file(ORLOP_SOURCE_DIR "/examples/c/orlop_example.c", work("example.c"));
  const Said built = shell("cd " + folder_.path() + " && export PKG_CONFIG_PATH=" + prefix() +
                           "/lib/pkgconfig && cc -std=c99 -Wall -Wextra -pedantic -Werror "
                           "example.c $(pkg-config --cflags --libs orlop) -Wl,-rpath," +
                           prefix() + "/lib -o example");
  ASSERT_EQ(built.status, 0) << built.text;
  const Said said = run(work("example"));
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_THAT(said.text, HasSubstr("get  4 of 4 pages"));
  EXPECT_THAT(shell("ldd " + work("example")).text, HasSubstr(prefix() + "/lib/liborlop.so.0"));
}

TEST_F(Installed, Cmake_project_finds_the_c_library_and_the_cpp_archive) {
  std::ofstream(work("CMakeLists.txt"))
      << "cmake_minimum_required(VERSION 3.25)\nproject(consumer LANGUAGES C CXX)\n"
         "set(CMAKE_CXX_STANDARD 23)\n"
         "find_package(orlop 0.1 REQUIRED)\n"
         "add_executable(in_c example.c)\ntarget_link_libraries(in_c PRIVATE orlop::orlop)\n"
         "add_executable(in_cpp example.cpp)\ntarget_link_libraries(in_cpp PRIVATE orlop::cpp)\n";
  std::filesystem::copy_file(ORLOP_SOURCE_DIR "/examples/c/orlop_example.c", work("example.c"));
  std::filesystem::copy_file(ORLOP_SOURCE_DIR "/examples/cpp/orlop_example.cpp",
                             work("example.cpp"));
  const Said built =
      shell("cd " + folder_.path() + " && cmake -S . -B out -DCMAKE_PREFIX_PATH=" + prefix() +
            " -DCMAKE_CXX_FLAGS=-O0 && cmake --build out");
  ASSERT_EQ(built.status, 0) << built.text;
  EXPECT_THAT(run(work("out/in_cpp")).text, HasSubstr("get  4 of 4 pages"));
  const Said said = run(work("out/in_c"));
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_THAT(said.text, HasSubstr("put  page0: exists"));
}

}  // namespace
}  // namespace orlop::c_api_test
