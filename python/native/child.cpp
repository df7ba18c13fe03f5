// SPDX-License-Identifier: Apache-2.0
// A child process for orlop.serve: started with a parent death signal, waited for without the GIL.
#include "child.h"

#include <fcntl.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "platform/system_error.h"
#include "seconds.h"

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

// A child and how it ended.
struct ReapedChild {
  Child child;
  std::optional<ExitStatus> ended{};
};

// True: it has ended and is off the kernel's books.
bool reap(ReapedChild& self, double timeout_s) {
  if (self.ended) return true;
  const MonoNs wait = milliseconds_of(timeout_s, "timeout").count() * kNsPerMs;
  Result<std::optional<ExitStatus>> ended;
  {
    const GilRelease others;
    ended = reap_child(self.child.pidfd, monotonic_ns() + wait);
  }
  if (ended) self.ended = *ended;
  // kWrongState: somebody else took it.
  return !ended || ended->has_value();
}

// As subprocess.returncode.
std::optional<int> return_code(const ReapedChild& self) {
  if (!self.ended) return std::nullopt;
  return self.ended->by_signal ? -self.ended->value : self.ended->value;
}

}  // namespace

void bind_child(nb::module_& module) {
  nb::class_<ReapedChild>(module, "_Child",
                          "A child process; ends with the thread that started it.")
      .def_static(
          "start",
          [](const std::vector<std::string>& arguments, const std::string& log_path) {
            std::optional<Result<Child>> child;
            {
              const GilRelease others;
              child.emplace(start(arguments, log_path));
            }
            return ReapedChild{value_or_raise(std::move(*child))};
          },
          nb::arg("arguments"), nb::arg("log_path"),
          "arguments: argv, the program's path first. Its output goes to the end of log_path.")
      .def_prop_ro(
          "pid", [](const ReapedChild& self) { return self.child.pid; }, "Its process id.")
      .def_prop_ro(
          "has_exited", [](const ReapedChild& self) { return self.child.pidfd.has_exited(); },
          "True once it is dead.")
      .def("reap", reap, nb::arg("timeout"),
           "Waits at most timeout seconds for its end. True: it has ended.")
      .def_prop_ro("returncode", return_code, nb::sig("def returncode(self) -> int | None"),
                   "Its exit status, -N for signal N; None before reap() has seen its end.")
      .def(
          "send_signal",
          [](const ReapedChild& self, int number) {
            static_cast<void>(self.child.pidfd.send_signal(number));  // it may be dead already
          },
          nb::arg("number"), "Sends a signal to exactly this process, if it still lives.");
}

}  // namespace orlop::python
