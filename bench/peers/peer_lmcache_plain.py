# SPDX-License-Identifier: Apache-2.0
"""lmcache_server without TCP_QUICKACK: how its users meet it. Shown beside peer_lmcache."""

from peer_lmcache import Peer as LmcachePeer


class Peer(LmcachePeer):
    quick_acknowledge = False
