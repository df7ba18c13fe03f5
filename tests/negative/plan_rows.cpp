// SPDX-License-Identifier: Apache-2.0
// Plans and handles that are used twice, after their end, by the wrong client, or from a forked
// child.
#include <gtest/gtest.h>

#include "child_process.h"
#include "rows.h"

namespace orlop::negative_test {
namespace {

constexpr auto kWrong = ErrorCode::kWrongState;

// A plan of the wrong kind does not even compile.
template <class Plan>
concept Committable = requires(Client c, Plan plan) { c.put_commit(plan); };
template <class Plan>
concept Releasable = requires(Client c, Plan plan) { c.release_views(plan); };
static_assert(Committable<PutPlan> && !Committable<ReadPlan> && !Committable<GetHandle>);
static_assert(Releasable<ReadPlan> && !Releasable<PutPlan> && !Releasable<GetHandle>);

// One pinned page of a key that is there.
struct Reading {
  explicit Reading(World& world)
      : key(1, "plan"),
        worker(world.worker()),
        stored(worker.put(key)),
        handle(worker.client.get_start(worker.ns, key)) {
    EXPECT_EQ(handle->result().transferable_len, 1U);
  }
  ReadPlan transfer() { return std::move(*worker.client.get_transfer(*handle)); }
  Keys key;
  Worker& worker;
  std::vector<Outcome> stored;
  Result<GetHandle> handle;
};
struct Writing {
  explicit Writing(World& world)
      : key(1, "write"),
        client(world.worker().client),
        plan(client.put_start(world.worker().ns, key)) {
    EXPECT_EQ(plan->outcome(0), Outcome::kPrepared);
  }
  Keys key;
  Client& client;
  Result<PutPlan> plan;
};

Rows used_twice_rows() {
  using enum Item;
  return {
      {kPlanUsedTwice,
       "commit_twice",
       kWrong,
       {"plan", "committed", "start a new put"},
       [](World& world) {
         Writing w(world);
         const auto future = w.client.put_commit(*w.plan);
         EXPECT_TRUE(future->wait(kPatience).has_value());
         EXPECT_EQ(world.worker().client.remove(world.worker().ns, w.key).value_or(0), 1U);
         return error_of(w.client.put_commit(*w.plan));
       }},
      {kPlanUsedTwice,
       "abort_after_abort",
       kWrong,
       {"plan", "aborted"},
       [](World& world) {
         Writing w(world);
         EXPECT_TRUE(w.client.put_abort(*w.plan));
         return w.client.put_abort(*w.plan);
       }},
      {kPlanUsedTwice,
       "copy_in_after_abort",
       kWrong,
       {"plan", "aborted", "start a new put"},
       [](World& world) {
         Writing w(world);
         EXPECT_TRUE(w.client.put_abort(*w.plan));
         return w.plan->copy_in(0, page_of(w.key[0]));
       }},
      {kPlanUsedTwice,
       "transfer_twice",
       kWrong,
       {"handle", "transferred", "get_start"},
       [](World& world) {
         Reading r(world);
         const ReadPlan plan = r.transfer();
         return error_of(r.worker.client.get_transfer(*r.handle));
       }},
      {kPlanUsedTwice,
       "cancel_after_transfer",
       kWrong,
       {"handle", "transferred"},
       [](World& world) {
         Reading r(world);
         const ReadPlan plan = r.transfer();
         return r.worker.client.cancel_get(*r.handle);
       }},
      {kPlanAfterRelease,
       "release_twice",
       kWrong,
       {"plan", "released"},
       [](World& world) {
         Reading r(world);
         ReadPlan plan = r.transfer();
         EXPECT_TRUE(r.worker.client.release_views(plan));
         return r.worker.client.release_views(plan);
       }},
      {kPlanAfterRelease,
       "copy_out_after_release",
       kWrong,
       {"plan", "released", "get"},
       [](World& world) {
         Reading r(world);
         ReadPlan plan = r.transfer();
         EXPECT_TRUE(r.worker.client.release_views(plan));
         EXPECT_TRUE(plan.view(0).empty());
         EXPECT_TRUE(plan.view_unverified(0).empty());
         EXPECT_EQ(plan.size(), 0U);
         std::vector<std::byte> page(kValueLen);
         return error_of(plan.copy_out(0, page));
       }},
      {kPlanAfterRelease,
       "copy_registered_after_release",
       kWrong,
       {"plan", "released"},
       [](World& world) {
         Reading r(world);
         ReadPlan plan = r.transfer();
         EXPECT_TRUE(r.worker.client.release_views(plan));
         return error_of(plan.register_copy());
       }},
  };
}

Rows wrong_kind_rows() {
  using enum Item;
  return {
      {kPlanOfWrongKind,
       "commit_by_another_client",
       kWrong,
       {"plan", "another client"},
       [](World& world) {
         Writing w(world);
         Client other(Worker::options(world.socket(), "other"));
         return error_of(other.put_commit(*w.plan));
       }},
      {kPlanOfWrongKind,
       "transfer_by_another_client",
       kWrong,
       {"handle", "another client"},
       [](World& world) {
         Reading r(world);
         Client other(Worker::options(world.socket(), "other"));
         return error_of(other.get_transfer(*r.handle));
       }},
      {kPlanOfWrongKind,
       "release_by_another_client",
       kWrong,
       {"plan", "another client"},
       [](World& world) {
         Reading r(world);
         ReadPlan plan = r.transfer();
         Client other(Worker::options(world.socket(), "other"));
         const auto refused = other.release_views(plan);
         EXPECT_EQ(Worker::wrong_pages(plan, r.key), 0U);  // and it stays usable
         EXPECT_EQ(plan.size(), 1U);
         return refused;
       }},
      {kPlanOfWrongKind,
       "copy_of_a_put_reported_to_a_read",
       ErrorCode::kInvalidArgument,
       {"copy", "not registered with this plan"},
       [](World& world) {
         Reading r(world);
         Writing w(world);
         ReadPlan plan = r.transfer();
         const auto copy = w.plan->register_copy();
         const auto refused = plan.copy_done(*copy, true);
         EXPECT_TRUE(w.plan->copy_done(*copy, true));
         return refused;
       }},
      {kPlanOfWrongKind,
       "commit_under_a_copy",
       kWrong,
       {"plan", "copies", "copy_done"},
       [](World& world) {
         Writing w(world);
         const auto copy = w.plan->register_copy();
         const auto refused = error_of(w.client.put_commit(*w.plan));
         EXPECT_TRUE(w.plan->copy_done(*copy, true));
         return refused;
       }},
      {kWrongPrefixLength,
       "transfer_inside_a_group",
       ErrorCode::kInvalidArgument,
       {"consume_prefix_len", "3", "boundary", "2", "stays usable"},
       [](World& world) {
         Worker& worker = world.worker();
         const Keys keys(4, "prefix");
         worker.put(keys);
         auto handle = worker.client.get_start(worker.ns, keys, {.atomic_group_lens = {2, 2}});
         const auto refused = error_of(worker.client.get_transfer(*handle, 3));
         auto plan = worker.client.get_transfer(*handle, 2);
         EXPECT_TRUE(plan.has_value()) << plan.error().message;
         EXPECT_EQ(plan->size(), 2U);
         EXPECT_EQ(Worker::wrong_pages(*plan, keys), 0U);
         return refused;
       }},
      {kWrongPrefixLength,
       "transfer_more_than_is_there",
       ErrorCode::kInvalidArgument,
       {"consume_prefix_len", "9", "transferable are 1", "stays usable"},
       [](World& world) {
         Reading r(world);
         const auto refused = error_of(r.worker.client.get_transfer(*r.handle, 9));
         EXPECT_EQ(r.transfer().size(), 1U);
         return refused;
       }},
  };
}

// Each call in a child that was really forked, with the parent's objects in use.
Row forked_row(
    std::string name,
    std::function<Result<void>(Client&, const Namespace&, PutPlan&, GetHandle&, ReadPlan&)> call) {
  return {Item::kForkedChild,
          std::move(name),
          ErrorCode::kForkedChild,
          {"parent of this process", "open a new Client"},
          [call = std::move(call)](World& world) {
            Reading r(world), plan_source(world);
            Writing w(world);
            ReadPlan plan = plan_source.transfer();
            const auto refused = in_forked_child(
                [&] { return call(w.client, world.worker().ns, *w.plan, *r.handle, plan); });
            // The parent has lost nothing.
            EXPECT_EQ(Worker::wrong_pages(plan, r.key), 0U);
            EXPECT_EQ(plan.size(), 1U);
            EXPECT_TRUE(w.plan->copy_in(0, page_of(w.key[0])));
            EXPECT_EQ(r.transfer().size(), 1U);
            return refused;
          }};
}

Rows forked_rows() {
  const auto row = forked_row;
  using C = Client;
  using N = Namespace;
  using P = PutPlan;
  using H = GetHandle;
  using R = ReadPlan;
  return {
      row("forked_commit", [](C& c, const N&, P& p, H&, R&) { return error_of(c.put_commit(p)); }),
      row("forked_abort", [](C& c, const N&, P& p, H&, R&) { return c.put_abort(p); }),
      row("forked_copy_in", [](C&, const N&, P& p, H&, R&) { return p.copy_in(0, {}); }),
      row("forked_transfer",
          [](C& c, const N&, P&, H& h, R&) { return error_of(c.get_transfer(h)); }),
      row("forked_release", [](C& c, const N&, P&, H&, R& r) { return c.release_views(r); }),
      row("forked_copy_out",
          [](C&, const N&, P&, H&, R& r) { return error_of(r.copy_out(0, {})); }),
      row("forked_get",
          [](C& c, const N& ns, P&, H&, R&) { return error_of(c.get_start(ns, Keys(1))); }),
      row("forked_put",
          [](C& c, const N& ns, P&, H&, R&) { return error_of(c.put_start(ns, Keys(1))); }),
      row("forked_flush", [](C& c, const N& ns, P&, H&, R&) { return error_of(c.flush(ns)); }),
  };
}

Rows forked_good_rows() {
  return {{Item::kForkedChild, "forked_child_with_a_client_of_its_own", {}, {}, [](World& world) {
             Reading r(world);
             return in_forked_child([&world]() -> Result<void> {
               Worker own(Worker::options(world.socket(), "child"));
               if (!own.usable()) return std::unexpected(own.client.last_attach_error());
               if (!all_are(own.put(Keys(3, "child")), Outcome::kStored))
                 return fail(ErrorCode::kSystem, "the child's put was not stored");
               const Got got = own.get(Keys(1, "plan"));
               if (got.pages != 1 || got.wrong != 0)
                 return fail(ErrorCode::kSystem, "the child does not read its parent's page");
               own.client.close();
               return {};
             });
           }}};
}

}  // namespace

Rows plan_rows() {
  Rows rows;
  for (auto part : {used_twice_rows(), wrong_kind_rows(), forked_rows(), forked_good_rows()})
    rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

}  // namespace orlop::negative_test
