# SPDX-License-Identifier: Apache-2.0
"""Which length is offered, and what of it is pinned, on a real node and without an engine."""

import random
from types import SimpleNamespace

import orlop
import pytest
from node import NodeProcess

from orlop.engine.counters import Counters
from orlop.engine.options import Options
from orlop.engine.reasons import Reason
from orlop.engine.recovery import Prefix, Window, common_boundaries, legal_boundaries
from orlop.vllm.family import Family
from orlop.vllm.keys import RequestKeys
from orlop.vllm.offers import Finder, RequestPages
from orlop.vllm.scheduler import SchedulerSide

RANK = {"engine": "vllm", "layout": "l", "model": "m", "revision": "r", "dtype": "f", "page_tokens": 32,
        "value_len": 512, "layers": 2, "heads": 1, "tp_size": 2, "pp_rank": 0, "pp_size": 1}
FULL_AND_WINDOW = [Prefix(32), Window(32, 63)]
TOKENS = 320


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    place = str(tmp_path_factory.mktemp("offers") / "orlop.sock")
    node = NodeProcess(place)
    client = orlop.Client(socket=place, name="offers")
    assert client.wait_ready(60)
    yield client
    client.close()
    node.close()


_names = iter(range(100_000))


class Store:
    """Namespaces of their own for some groups on some ranks, and a request of 10 keys of 32 tokens."""

    def __init__(self, client, groups, ranks=1):
        self.client, self.groups, name = client, groups, str(next(_names))
        self.spaces = [[client.open_namespace({**RANK, "model": name, "component": str(i),
                                               "tp_rank": rank, "tp_size": ranks})
                        for rank in range(ranks)] for i in range(len(groups))]
        self.request = SimpleNamespace(
            request_id=name, num_tokens=TOKENS + 8, num_prompt_tokens=TOKENS + 8, prompt_embeds=None,
            kv_transfer_params=None, num_computed_tokens=0,
            block_hashes=[f"{name}-{i}".encode().ljust(32, b".") for i in range(TOKENS // 32)])
        self.pages = RequestPages(RequestKeys(self.request, 32, engine_hashes=True), groups, 32)
        self.finder = Finder(client, groups)

    def put(self, group, rank, pages):
        for page in pages:
            key = self.pages.of(group, page, page + 1)
            assert self.client.put(self.spaces[group][rank], key, [bytes(512)]) == [orlop.Outcome.STORED]

    def remove(self, group, rank, page):
        key = self.pages.of(group, page, page + 1)
        assert self.client.remove(self.spaces[group][rank], key) == 1

    def find(self, local=0, longest=TOKENS):
        offer, reason = self.finder.find(self.pages, self.spaces, local, longest)
        assert (offer is None) == (reason is not Reason.HIT)
        if offer is None:
            self.assert_nothing_pinned()
            return reason
        pinned = {pin.group: (pin.first, len(pin.keys)) for pin in offer.pins}
        for pin in offer.pins:
            assert pin.keys == self.pages.of(pin.group, pin.first, pin.first + len(pin.keys))
            assert pin.handle.result.transferable_len >= len(pin.keys)
        self.finder.cancel(offer.pins)
        self.assert_nothing_pinned()
        return offer.tokens, pinned

    def assert_nothing_pinned(self):
        stats = self.client.stats()
        assert (stats.open_handles, stats.open_read_plans, stats.pinned_bytes) == (0, 0, 0)


def test_full_attention_alone_goes_on_from_every_page(client):
    store = Store(client, [Prefix(32)], ranks=2)
    store.put(0, 0, range(10))
    assert store.find() is Reason.NOT_FOUND
    store.put(0, 1, range(7))
    assert store.find() == (224, {0: (0, 7)})
    assert store.find(local=64, longest=192) == (128, {0: (2, 4)})


def test_a_window_needs_only_its_last_pages(client):
    store = Store(client, FULL_AND_WINDOW)
    store.put(0, 0, range(10))
    assert store.find() is Reason.NOT_FOUND
    store.put(1, 0, [8, 9])
    assert store.find() == (320, {0: (0, 10), 1: (8, 2)})
    assert store.find(longest=288) is Reason.NOT_FOUND
    store.put(1, 0, [4, 5])
    assert store.find(longest=288) == (192, {0: (0, 6), 1: (4, 2)})
    store.remove(1, 0, 9)
    assert store.find() == (192, {0: (0, 6), 1: (4, 2)})
    store.remove(0, 0, 5)
    assert store.find() is Reason.NOT_FOUND


def test_what_the_engine_has_itself_is_neither_asked_for_nor_pinned(client):
    store = Store(client, FULL_AND_WINDOW)
    store.put(0, 0, range(4, 10))
    store.put(1, 0, [4, 8, 9])
    assert store.find() is Reason.NOT_FOUND
    assert store.find(local=128) == (192, {0: (4, 6), 1: (8, 2)})
    assert store.find(local=128, longest=288) == (32, {0: (4, 1), 1: (4, 1)})
    assert store.find(local=288) == (32, {0: (9, 1), 1: (9, 1)})


def test_groups_of_other_page_sizes_meet_where_all_of_them_end(client):
    store = Store(client, [Prefix(32), Prefix(64), Window(32, 40)])
    assert store.finder.alignment == 64
    store.put(0, 0, range(9))
    store.put(1, 0, range(5))
    store.put(2, 0, range(10))
    assert store.find() == (256, {0: (0, 8), 1: (0, 4), 2: (6, 2)})
    store.remove(0, 0, 1)
    assert store.find() is Reason.NOT_FOUND


def test_a_model_of_nothing_but_windows_needs_no_prefix(client):
    store = Store(client, [Window(32, 63)])
    store.put(0, 0, [6, 7])
    assert store.find() == (256, {0: (6, 2)})


def test_ranks_may_share_the_namespace_of_one_group(client):
    store = Store(client, [Prefix(32), Window(32, 63), Window(32, 63)], ranks=2)
    del store.spaces[2][1]
    for group, spaces in enumerate(store.spaces):
        for rank in range(len(spaces)):
            store.put(group, rank, range(10))
    assert store.find() == (320, {0: (0, 10), 1: (8, 2), 2: (8, 2)})
    store.remove(1, 1, 9)
    store.remove(2, 0, 8)
    assert store.find() == (256, {0: (0, 8), 1: (6, 2), 2: (6, 2)})


def test_a_page_that_failed_shortens_what_is_offered(client):
    store = Store(client, FULL_AND_WINDOW)
    for group in (0, 1):
        store.put(group, 0, range(10))
    store.finder.remember_failed(1, store.pages.of(1, 8, 9)[0])
    assert store.find() == (256, {0: (0, 8), 1: (6, 2)})
    store.finder.remember_failed(0, store.pages.of(0, 5, 6)[0])
    assert store.find() == (160, {0: (0, 5), 1: (3, 2)})
    store.finder.remember_failed(0, store.pages.of(0, 0, 1)[0])
    assert store.find() is Reason.FAILED_RECENTLY


def test_a_page_that_goes_between_look_and_pin_unpins_everything(client, monkeypatch):
    store = Store(client, FULL_AND_WINDOW)
    for group in (0, 1):
        store.put(group, 0, range(10))
    hits = store.finder._hits

    def too_late(*arguments):
        answer = hits(*arguments)
        store.remove(1, 0, 9)
        return answer

    monkeypatch.setattr(store.finder, "_hits", too_late)
    assert store.find() is Reason.NOT_FOUND
    monkeypatch.undo()
    assert store.find() == (288, {0: (0, 9), 1: (7, 2)})


def test_an_error_between_two_pins_leaves_none(client, monkeypatch):
    store = Store(client, FULL_AND_WINDOW)
    store.put(0, 0, range(10))
    monkeypatch.setattr(store.finder, "_hits", None)
    with pytest.raises(TypeError):
        store.find()
    store.assert_nothing_pinned()


def test_offers_are_the_longest_length_legal_for_all_groups_and_ranks(client):
    chance, offered = random.Random(3), 0
    for _ in range(150):
        groups = [Prefix(32), Window(chance.choice([32, 64]), chance.choice([1, 40, 63, 100]))]
        store = Store(client, groups, ranks=chance.choice([1, 2]))
        ranks = []
        for rank in range(len(store.spaces[0])):
            hits = [[chance.random() < 0.9 for _ in range(TOKENS // group.page_tokens)]
                    for group in groups]
            for i, one in enumerate(hits):
                store.put(i, rank, [page for page, there in enumerate(one) if there])
            ranks.append(hits)
        longest = chance.randrange(store.finder.alignment, TOKENS + 1, store.finder.alignment)
        expected = common_boundaries(legal_boundaries(groups, hits, longest) for hits in ranks)[-1]
        found = store.find(longest=longest)
        if expected == 0:
            assert found is Reason.NOT_FOUND
            continue
        offered += 1
        tokens, pinned = found
        assert tokens == expected and pinned == {
            i: (group.pages(expected).start, len(group.pages(expected)))
            for i, group in enumerate(groups)}
    assert offered > 75


# ---- the scheduler's side --------------------------------------------------------------------------


class Side:
    """A scheduler's side whose family is this store's."""

    def __init__(self, store):
        self.store, self.counters = store, Counters()
        family = Family(store.client, lambda: "r")
        family._known = ("r", store.spaces)
        self.family = family
        self.side = SchedulerSide(Options(), store.client, family, self.counters, store.groups, 32,
                                  engine_hashes=True)
        self.side.begin(store.request)

    def step(self, computed, scheduled, new=None, added=None):
        """One step of the request: its whole tables when it begins, else what was added."""
        name = self.store.request.request_id
        begins = [] if new is None else [SimpleNamespace(
            req_id=name, num_computed_tokens=computed, block_ids=new)]
        goes_on = [name] if new is None else []
        return self.side.orders(SimpleNamespace(
            scheduled_new_reqs=begins, num_scheduled_tokens={name: scheduled},
            total_num_scheduled_tokens=scheduled, has_sync_kv_loads=False,
            scheduled_cached_reqs=SimpleNamespace(
                req_ids=goes_on, num_computed_tokens=[computed for _ in goes_on],
                new_block_ids=[added for _ in goes_on],
                resumed_req_ids=set())))


@pytest.fixture
def side(client):
    side = Side(Store(client, FULL_AND_WINDOW))
    yield side
    side.side.close()
    side.store.assert_nothing_pinned()


def saved(orders):
    return {group: sorted(block for order in orders.saves if order.group == group
                          for block in order.blocks) for group in {one.group for one in orders.saves}}


def test_pages_of_a_window_are_saved_in_the_step_that_completes_them(side):
    orders = side.step(0, 128, new=([1, 2, 3, 4], [11, 12, 13, 14]))
    assert saved(orders) == {0: [1, 2, 3, 4], 1: [11, 12, 13, 14]}
    # What the next step may reuse does not take along what stays in the window.
    assert [(order.group, order.blocks) for order in orders.saves] == [
        (0, [1, 2, 3, 4]), (1, [13, 14]), (1, [11, 12])]
    assert [order.parent for order in orders.saves] == [None, *side.store.pages.of(1, 1, 2), None]
    orders = side.step(128, 50, added=([5, 6], [15, 16]))
    assert saved(orders) == {0: [5], 1: [15]} and sorted(orders.overwritten) == [5, 6, 15, 16]
    assert orders.saves[1].parent == side.store.pages.of(1, 3, 4)[0]
    orders = side.step(178, 14, added=None)
    assert saved(orders) == {0: [6], 1: [16]}


def test_pages_that_left_the_window_before_they_could_be_saved_are_dropped(side):
    """Their blocks hold another request's tokens by now."""
    known, side.family._known = side.family._known, None
    assert not side.step(0, 192, new=([1, 2, 3, 4, 5, 6], [11, 12, 13, 14, 15, 16])).saves
    side.family._known = known
    orders = side.step(192, 32, added=([7], [17]))
    # The token after 192 looks back to token 129, in block 4.
    assert saved(orders) == {0: [1, 2, 3, 4, 5, 6, 7], 1: [15, 16, 17]}
    assert side.counters.totals()["dropped_pages:overwritten"] == 4
    assert orders.saves[1].keys + orders.saves[2].keys == [
        *side.store.pages.of(1, 5, 7), *side.store.pages.of(1, 4, 5)]


def test_a_preempted_request_orders_again_what_is_not_stored(side):
    """Its blocks went to others at once, which may have ended its saves."""
    side.step(0, 160, new=([1, 2, 3, 4, 5], [11, 12, 13, 14, 15]))
    side.store.put(0, 0, [0, 1])
    orders = side.step(0, 128, new=([21, 22, 23, 24], [31, 32, 33, 34]))
    assert saved(orders) == {0: [23, 24], 1: [31, 32, 33, 34]}
    # Of its own hit the window's group has nothing before the window.
    orders = side.step(128, 32, new=([21, 22, 23, 24, 25], [0, 0, 33, 34, 35]))
    assert saved(orders) == {0: [23, 24, 25], 1: [33, 34, 35]}


def test_the_null_block_is_never_saved_nor_loaded(side):
    orders = side.step(192, 40, new=([1, 2, 3, 4, 5, 6, 7, 8], [0, 0, 0, 0, 15, 16, 17, 18]))
    assert 0 not in saved(orders)[1] and saved(orders)[1] == [15, 16, 17]
    store = side.store
    for group in (0, 1):
        store.put(group, 0, range(10))
    assert side.side.look_up(store.request, 0) == 320
    side.side.allocated(store.request, ([*range(1, 11)], [0] * 8 + [28, 29]), 320)
    (order,) = side.step(0, 0, new=((), ())).loads
    assert order.blocks == [*range(1, 11), 28, 29] and order.spans == [(0, 10), (1, 2)] and order.whole
    assert order.keys == store.pages.of(0, 0, 10) + store.pages.of(1, 8, 10)
    assert store.client.stats().open_read_plans == 2


@pytest.mark.parametrize(("tables", "tokens"), [
    (([*range(1, 11)], [0] * 9 + [29]), 320),  # not the blocks that the window needs
    (([*range(1, 11)], [0] * 8 + [28]), 320),
    (([*range(1, 10)], [0] * 7 + [27, 28]), 288)])  # less than was offered
def test_a_load_that_is_not_what_was_offered_fails_as_a_whole(side, tables, tokens):
    for group in (0, 1):
        side.store.put(group, 0, range(10))
    assert side.side.look_up(side.store.request, 0) == 320
    side.side.allocated(side.store.request, tables, tokens)
    (order,) = side.step(0, 0, new=((), ())).loads
    assert not order.keys and order.whole and order.pages >= 1
    assert side.store.client.stats().open_handles == 0
    side.side.reported(SimpleNamespace(kv_connector_worker_meta=None, failed_recving=None,
                                       finished_recving={side.store.request.request_id}))
    assert side.side.look_up(side.store.request, 0) == 0
    assert side.counters.totals()["lookups:failed_before"] == 1


def test_an_error_after_an_offer_leaves_it_to_the_end_of_the_step(side, monkeypatch):
    for group in (0, 1):
        side.store.put(group, 0, range(10))
    monkeypatch.setattr(side.side._timeline, "note", None)
    with pytest.raises(TypeError):
        side.side.look_up(side.store.request, 0)
    assert side.side.held()["offers"] == 1
    side.step(0, 32, new=([1], [11]))
    assert side.side.held()["offers"] == 0
    side.store.assert_nothing_pinned()


def test_a_failed_page_is_remembered_for_its_own_group(side):
    store, name = side.store, side.store.request.request_id
    for group in (0, 1):
        store.put(group, 0, range(10))
    side.side.look_up(store.request, 0)
    side.side.allocated(store.request, ([*range(1, 11)], [0] * 8 + [28, 29]), 320)
    side.step(0, 0, new=((), ()))
    side.side._loading[name].pages = 11  # the last of the window's two is wrong
    side.side.reported(SimpleNamespace(kv_connector_worker_meta=None, failed_recving={name},
                                       finished_recving={name}))
    assert store.find() == (320, {0: (0, 10), 1: (8, 2)})  # of another Finder
    store.finder = side.side._finder
    assert store.find() == (288, {0: (0, 9), 1: (7, 2)})


def test_a_hit_that_the_limit_of_pins_cuts_short_is_counted(tmp_path):
    page = 2 << 20
    node = NodeProcess(str(tmp_path / "orlop.sock"), "64MiB")
    client = orlop.Client(socket=node.socket, name="limited")
    try:
        assert client.wait_ready(60)
        store = Store(client, [Prefix(32)])
        store.spaces = [[client.open_namespace({**RANK, "value_len": page, "model": "limited",
                                                "component": "kv", "tp_rank": 0, "tp_size": 1})]]
        for first in (0, 5):  # of puts, too, only so much may be open
            keys = store.pages.of(0, first, first + 5)
            assert client.put(store.spaces[0][0], keys, [bytes(page)] * 5) == [orlop.Outcome.STORED] * 5
        offer, reason = store.finder.find(store.pages, store.spaces, 0, TOKENS)
        assert reason is Reason.HIT and offer.limited and 4 <= offer.pages <= 8  # of 16 MiB
        store.finder.cancel(offer.pins)
        short, _ = store.finder.find(store.pages, store.spaces, 0, 3 * 32)
        assert not short.limited and short.pages == 3
        store.finder.cancel(short.pins)
    finally:
        client.close()
        node.close()
