// SPDX-License-Identifier: Apache-2.0
// A child process for orlop.serve: started with a parent death signal, waited for without the GIL.
#include "child.h"

#include <fcntl.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "platform/system_error.h"

namespace orlop::python {

namespace {

// Ours, but for what would configure a node: this one is told everything by its arguments.
std::vector<std::string> environment_of_node() {
  std::vector<std::string> kept;
  for (char** one = ::environ; one != nullptr && *one != nullptr; ++one) {
    const std::string entry = *one;
    const std::string name = entry.substr(0, entry.find('='));
    if (!name.starts_with("ORLOP_") || name == "ORLOP_LOG" || name == "ORLOP_COPY") {
      kept.push_back(entry);
    }
  }
  return kept;
}

Result<Child> start(const std::vector<std::string>& arguments, const std::string& log_path) {
  const FileDescriptor log(
      ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log) return system_failure("open(" + log_path + ")", errno);
  const FileDescriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing) return system_failure("open(/dev/null)", errno);
  SpawnRequest request;
  request.path = arguments.at(0);
  request.arguments = arguments;
  request.environment = environment_of_node();
  request.keep = {{nothing.get(), 0}, {log.get(), 1}, {log.get(), 2}};
  request.parent_death_signal = SIGTERM;
  return spawn(request);
}

// True: it has ended and is off the kernel's books.
bool reap(const Child& child, double timeout_s) {
  const auto wait = static_cast<MonoNs>(std::clamp(timeout_s, 0.0, 3600.0) * kNsPerSecond);
  Result<std::optional<ExitStatus>> ended;
  {
    const GilRelease others;
    ended = reap_child(child.pidfd, monotonic_ns() + wait);
  }
  // kWrongState: taken already.
  return !ended || ended->has_value();
}

}  // namespace

void bind_child(nb::module_& module) {
  nb::class_<Child>(module, "_Child", "A child process; ends with the thread that started it.")
      .def_static(
          "start",
          [](const std::vector<std::string>& arguments, const std::string& log_path) {
            std::optional<Result<Child>> child;
            {
              const GilRelease others;
              child.emplace(start(arguments, log_path));
            }
            return value_or_raise(std::move(*child));
          },
          nb::arg("arguments"), nb::arg("log_path"),
          "arguments: argv, the program's path first. Its output goes to the end of log_path.")
      .def_ro("pid", &Child::pid, "Its process id.")
      .def_prop_ro(
          "has_exited", [](const Child& self) { return self.pidfd.has_exited(); },
          "True once it is dead.")
      .def("reap", reap, nb::arg("timeout"),
           "Waits at most timeout seconds for its end. True: it has ended.")
      .def(
          "send_signal",
          [](const Child& self, int number) {
            static_cast<void>(self.pidfd.send_signal(number));  // it may be dead already
          },
          nb::arg("number"), "Sends a signal to exactly this process, if it still lives.");
}

}  // namespace orlop::python
