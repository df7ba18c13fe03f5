// SPDX-License-Identifier: Apache-2.0
#include "worker.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

namespace orlop::gpu_test {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr Milliseconds kLongEnough{60'000};
constexpr std::byte kUntouched{0xa5};

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

int print(Json line, bool ok) {
  line["ok"] = ok;
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
  return ok ? 0 : 1;
}
int print_error(Json line, const std::string& what, const Error& error) {
  line["error"] = what + ": " + error.message;
  return print(std::move(line), false);
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

Json head_of(const WorkerOptions& options) {
  return {{"step", options.role},
          {"engine", options.engine},
          {"layout", options.arrangement},
          {"set", options.set},
          {"values", options.values}};
}

// A cache with its memory; the image is what the memory should hold.
struct OpenCache {
  std::optional<Client> client;
  Namespace ns;
  Model model;
  std::optional<PagedCache> paged;
  std::vector<std::byte> image;
  std::unique_ptr<CacheMemory> memory;
  std::optional<PageCache> pages;
};

// room: values that the cache has pages for.
Result<std::unique_ptr<OpenCache>> open_cache(const WorkerOptions& options, std::size_t room) {
  auto out = std::make_unique<OpenCache>();
  out->model = model_of(options);
  out->paged.emplace(out->model, *arrangement(options.arrangement), room);
  out->image.assign(out->paged->bytes(), kUntouched);
  auto memory = make_cache_memory(memory_kind(options), out->paged->bytes());
  if (!memory) return std::unexpected(memory.error());
  out->memory = std::move(*memory);
  auto client = open_client(options);
  if (!client) return std::unexpected(client.error());
  out->client.emplace(std::move(*client));
  auto ns = out->client->open_namespace(out->model.descriptor());
  if (!ns) return std::unexpected(ns.error());
  out->ns = *ns;
  auto pages = PageCache::open(*out->client, out->paged->layout(out->memory->address()),
                               out->ns.value_len(), {.engine = *engine_choice(options.engine)});
  if (!pages) return std::unexpected(pages.error());
  out->pages.emplace(std::move(*pages));
  return out;
}

void write_values(OpenCache& cache, std::span<std::byte> image, std::span<const std::string> keys,
                  std::span<const std::int64_t> pages) {
  const std::size_t each = cache.paged->pages_per_value();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    cache.paged->write_value(image, value_of(keys[i], cache.model.value_len()),
                             pages.subspan(i * each, each));
  }
}

std::vector<Key> views_of(std::span<const std::string> keys) {
  return {keys.begin(), keys.end()};
}

}  // namespace

int run_backup(const WorkerOptions& options) {
  Json line = head_of(options);
  auto opened = open_cache(options, options.values);
  if (!opened) return print_error(line, "open", opened.error());
  OpenCache& cache = **opened;
  line["describe"] = first_line(cache.pages->describe());
  const auto keys = key_texts(options.set, options.values);
  const auto pages =
      scattered_pages(cache.paged->pages(), keys.size(), cache.paged->pages_per_value(), 1);
  write_values(cache, cache.image, keys, pages);
  if (auto written = cache.memory->write(cache.image); !written)
    return print_error(line, "fill", written.error());

  // Two nodes of a radix tree in one call.
  const std::size_t first = keys.size() / 2;
  const std::vector<Key> views = views_of(keys);
  const std::span<const Key> all(views);
  auto one = cache.client->put_start(cache.ns, all.first(first));
  if (!one) return print_error(line, "put_start", one.error());
  auto two = cache.client->put_start(cache.ns, all.subspan(first), {.parent = views[first - 1]});
  if (!two) return print_error(line, "put_start", two.error());
  const std::span<const std::int64_t> numbers(pages);
  const std::size_t cut = first * cache.paged->pages_per_value();
  const BackupItem items[] = {{&*one, {numbers.first(cut)}}, {&*two, {numbers.subspan(cut)}}};
  const auto begin = Clock::now();
  auto backup = cache.pages->backup(items);
  if (!backup) return print_error(line, "backup", backup.error());
  auto outcomes = backup->wait(kLongEnough);
  line["ms"] = milliseconds_since(begin);
  if (!outcomes) return print_error(line, "wait", outcomes.error());
  std::uint32_t stored = 0;
  if (*outcomes) {
    for (const auto& item : **outcomes)
      for (const Outcome outcome : item) stored += outcome == Outcome::kStored ? 1 : 0;
  }
  line["stored"] = stored;
  return print(std::move(line), stored == options.values);
}

namespace {

struct Restored {
  std::uint32_t hits = 0, valid = 0;
  double ms = 0, first_range_ms = 0;
};

Result<Restored> restore(OpenCache& cache, std::span<const std::string> keys,
                         std::span<const std::int64_t> pages) {
  const std::vector<Key> views = views_of(keys);
  auto handle = cache.client->get_start(cache.ns, views);
  if (!handle) return std::unexpected(handle.error());
  Restored out{.hits = handle->result().transferable_len};
  if (out.hits == 0) return out;
  auto plan = cache.client->get_transfer(*handle);
  if (!plan) return std::unexpected(plan.error());
  const std::uint32_t half = cache.model.layers / 2;
  const RestoreItem item{&*plan, {pages.first(out.hits * cache.paged->pages_per_value())}};
  const auto begin = Clock::now();
  auto job = cache.pages->restore({&item, 1}, {.ranges = {{0, half}, {half, cache.model.layers}}});
  if (!job) return std::unexpected(job.error());
  auto valid = job->wait(kLongEnough);
  out.ms = milliseconds_since(begin);
  if (!valid) return std::unexpected(valid.error());
  if (!*valid) return fail(ErrorCode::kDeadline, "the restore did not end within 60 s");
  out.valid = (*valid)->front();
  if (auto released = cache.client->release_views(*plan); !released)
    return std::unexpected(released.error());
  return out;
}

}  // namespace

int run_restore(const WorkerOptions& options) {
  Json line = head_of(options);
  const std::size_t room = options.values + 7u;  // pages that no value goes to
  auto opened = open_cache(options, room);
  if (!opened) return print_error(line, "open", opened.error());
  OpenCache& cache = **opened;
  line["describe"] = first_line(cache.pages->describe());
  if (auto written = cache.memory->write(cache.image); !written)
    return print_error(line, "fill", written.error());
  const auto keys = key_texts(options.set, options.values);
  const std::uint32_t each = cache.paged->pages_per_value();
  const auto pages = scattered_pages(cache.paged->pages(), keys.size(), each, 2);
  const auto restored = restore(cache, keys, pages);
  if (!restored) return print_error(line, "restore", restored.error());
  const std::uint32_t expected = std::min(options.expected, options.values);
  line["hits"] = restored->hits;
  line["valid"] = restored->valid;
  line["ms"] = restored->ms;

  std::vector<std::byte> found(cache.image.size());
  if (auto read = cache.memory->read(found); !read) return print_error(line, "read", read.error());
  // What came for pages that are misses is nobody's business.
  const std::span<const std::int64_t> numbers(pages);
  const std::span<const std::string> names(keys);
  const std::size_t first_wrong = std::min<std::size_t>(restored->valid, keys.size());
  write_values(cache, cache.image, names.first(first_wrong), numbers.first(first_wrong * each));
  write_values(cache, cache.image, names.subspan(first_wrong), numbers.subspan(first_wrong * each));
  write_values(cache, found, names.subspan(first_wrong), numbers.subspan(first_wrong * each));
  const bool same = found == cache.image;
  line["same_bytes"] = same;
  bool ok = same && restored->hits == options.values && restored->valid == expected;
  if (expected < options.values) {
    // The node has checked the report and doomed the page; a prefix ends before it.
    line["mismatches"] = cache.client->stats().mismatches;
    ok = ok && cache.client->stats().mismatches == 1;
    std::uint32_t again = options.values;
    for (const auto begin = Clock::now(); again > expected && milliseconds_since(begin) < 5000;) {
      const auto looked = cache.client->exists(cache.ns, views_of(keys));
      if (!looked) return print_error(line, "exists", looked.error());
      again = looked->prefix_len;
    }
    line["hits_after"] = again;
    ok = ok && again == expected;
  }
  return print(std::move(line), ok);
}

int run_press(const WorkerOptions& options) {
  Json line = head_of(options);
  auto client = open_client(options);
  if (!client) return print_error(line, "attach", client.error());
  const Model model = model_of(options);
  auto ns = client->open_namespace(model.descriptor());
  if (!ns) return print_error(line, "open_namespace", ns.error());
  std::uint32_t stored = 0, hit = 0, wrong = 0;
  std::vector<std::byte> into(model.value_len());
  for (const std::string& text : key_texts(options.set, options.values)) {
    const Key key = text;
    const std::vector<std::byte> value = value_of(text, model.value_len());
    const std::span<const std::byte> from(value);
    const auto put = client->put(*ns, {&key, 1}, {&from, 1});
    if (!put) return print_error(line, "put", put.error());
    stored += put->front() == Outcome::kStored ? 1 : 0;
    const std::span<std::byte> buffer(into);
    const auto got = client->get(*ns, {&key, 1}, {&buffer, 1});
    if (!got) return print_error(line, "get", got.error());
    hit += *got;
    if (*got == 1 && into != value) ++wrong;
  }
  line["stored"] = stored;
  line["hits"] = hit;
  line["wrong"] = wrong;
  line["mismatches"] = client->stats().mismatches;
  return print(std::move(line), stored > 0 && wrong == 0 && client->stats().mismatches == 0);
}

std::optional<CopyEngineChoice> engine_choice(const std::string& name) {
  if (name == "auto") return CopyEngineChoice::kAuto;
  if (name == "host") return CopyEngineChoice::kHost;
  if (name == "staged") return CopyEngineChoice::kStaged;
  if (name == "direct") return CopyEngineChoice::kDirect;
  if (name == "pieces") return CopyEngineChoice::kPieces;
  return std::nullopt;
}

MemoryKind memory_kind(const WorkerOptions& options) {
  return options.memory == "gpu" && options.engine != "host" ? MemoryKind::kDevice
                                                             : MemoryKind::kHost;
}

Model model_of(const WorkerOptions& options) {
  return make_model(model_kind(*arrangement(options.arrangement)),
                    options.size == "large" ? ModelSize::kLarge : ModelSize::kSmall);
}

std::vector<std::string> key_texts(const std::string& set, std::uint32_t count) {
  std::vector<std::string> out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(set + "/" + std::to_string(i));
  return out;
}

Result<Client> open_client(const WorkerOptions& options) {
  Client client({.socket = options.socket,
                 .name = options.role + "-" + options.engine,
                 .call_budget = Milliseconds(10'000)});
  if (!client.wait_ready(Milliseconds(20'000))) return std::unexpected(client.last_attach_error());
  return client;
}

std::vector<std::string> worker_arguments(const WorkerOptions& o) {
  return {"--worker",     o.role,
          "--socket",     o.socket,
          "--engine",     o.engine,
          "--memory",     o.memory,
          "--size",       o.size,
          "--layout",     o.arrangement,
          "--set",        o.set,
          "--values",     std::to_string(o.values),
          "--expected",   std::to_string(o.expected),
          "--busy",       std::to_string(o.busy_seconds),
          "--pipes-last", o.pipes_last ? "1" : "0"};
}

int run_worker(const WorkerOptions& options) {
  if (options.role == "backup") return run_backup(options);
  if (options.role == "restore") return run_restore(options);
  if (options.role == "doomed") return run_doomed(options);
  if (options.role == "press") return run_press(options);
  std::fprintf(stderr, "gpu_end_to_end: unknown --worker %s\n", options.role.c_str());
  return 2;
}

}  // namespace orlop::gpu_test
