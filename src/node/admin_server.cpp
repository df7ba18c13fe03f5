// SPDX-License-Identifier: Apache-2.0
#include "node/admin_server.h"

#include <httplib.h>

#include <thread>

#include "node/inspect_json.h"
#include "node/metrics.h"
#include "node/status_json.h"

namespace orlop::node {
namespace {

// A scraper and a person; more wait.
constexpr std::size_t kThreads = 2;

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace

class AdminServer::Http : public httplib::Server {
 public:
  Http(FileDescriptor socket, runtime::AdminPorts& ports,
       std::vector<std::pair<std::string, std::string>> configuration)
      : ports_(ports), configuration_(std::move(configuration)) {
    new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    set_keep_alive_max_count(100);
    set_read_timeout(5);
    set_write_timeout(5);
    set_payload_max_length(1024);
    route();
    svr_sock_ = socket.release();  // closed by httplib
    thread_ = std::thread([this] { listen_after_bind(); });
  }
  ~Http() override {
    // stop() does nothing before the loop runs; it is about to.
    while (!is_running()) std::this_thread::yield();
    stop();
    thread_.join();
  }

 private:
  using Snapshot = std::shared_ptr<const runtime::NodeSnapshot>;

  template <class Render>
  void serve(const char* path, const char* type, Render render) {
    Get(path, [this, type, render](const httplib::Request&, httplib::Response& response) {
      const Snapshot snapshot = ports_.snapshots.take(kAnswerLimit);
      if (snapshot == nullptr) {
        response.status = 503;
        response.set_content("the server does not answer\n", "text/plain");
        return;
      }
      response.set_content(render(*snapshot), type);
    });
  }

  void route() {
    serve("/metrics", kMetricsType, [](const runtime::NodeSnapshot& snapshot) {
      return metrics_text(snapshot, read_process_memory(snapshot.keeper_pid));
    });
    serve("/status.json", "application/json", [this](const runtime::NodeSnapshot& snapshot) {
      return status_json(snapshot, read_process_memory(snapshot.keeper_pid), configuration_);
    });
    Get("/healthz", [this](const httplib::Request&, httplib::Response& response) {
      const bool answers = ports_.health.take(kAnswerLimit) != nullptr;
      response.status = answers ? 200 : 503;
      response.set_content(answers ? "ok\n" : "the server does not answer\n", "text/plain");
    });
    Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
      const char* const why = why_not_ready(ports_.health.take(kAnswerLimit).get());
      response.status = why == nullptr ? 200 : 503;
      response.set_content(why == nullptr ? "ready\n" : "not ready: " + std::string(why) + "\n",
                           "text/plain");
    });
    Get("/inspect/([^/]*)", [this](const httplib::Request& request, httplib::Response& response) {
      inspect(request.matches[1].str(), request.params, response);
    });
  }

  // Null: it is ready.
  static const char* why_not_ready(const runtime::NodeHealth* health) {
    if (health == nullptr) return "the server does not answer";
    if (health->stopping) return "stopping";
    if (health->draining) return "draining, new puts are not admitted";
    return nullptr;
  }

  void inspect(const std::string& what, const httplib::Params& parameters,
               httplib::Response& response) {
    const auto refuse = [&response](const Error& error) {
      response.status = error.code == ErrorCode::kInvalidArgument ? 400 : 503;
      response.set_content(error.message + "\n", "text/plain");
    };
    const auto question = parse_inspection(what, parameters);
    if (!question) return refuse(question.error());
    const auto answer = runtime::ask_whole(ports_.inspections, *question, kAnswerLimit);
    if (!answer) return refuse(answer.error());
    response.set_content(inspection_json(*answer), "application/json");
  }

  runtime::AdminPorts& ports_;
  std::vector<std::pair<std::string, std::string>> configuration_;
  std::thread thread_;
};

AdminServer::AdminServer(FileDescriptor socket, runtime::AdminPorts& ports,
                         std::vector<std::pair<std::string, std::string>> configuration) {
  if (!socket) return;
  http_ = std::make_unique<Http>(std::move(socket), ports, std::move(configuration));
}

AdminServer::~AdminServer() = default;

}  // namespace orlop::node
