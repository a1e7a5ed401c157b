"""The study of affinity: its servers say who they are, and what of their keys they would have kept."""

import asyncio
from functools import partial

from steelyard_loadtest.affinity import CACHE, PORT, SIZES, Caches, ask
from steelyard_loadtest.cluster.parts import HOST


def test_a_server_keeps_the_keys_that_were_asked_for_last_as_many_as_its_size_allows() -> None:
    caches, small = Caches(), SIZES.index(1)
    first = [f"/{n}" for n in range(CACHE)]

    async def asked() -> list[int]:
        server = await asyncio.start_server(partial(caches.serve, small), HOST, PORT)
        async with server:
            return await ask([*first, "/0", "/another", "/1", "/0", "/map?0"], 1)

    assert asyncio.run(asked()) == [small] * (CACHE + 5)
    # 0 was asked for again before another came, so 1 had to go; what maps keys is no load.
    assert caches.hits == [False] * CACHE + [True, False, False, True]


def test_its_keys_have_a_server_each_and_more_clients_ask_for_each_once() -> None:
    caches = Caches()

    async def asked() -> list[int]:
        async with await asyncio.start_server(partial(caches.serve, 2), HOST, PORT):
            return await ask([f"/{n}" for n in range(40)], 8)

    assert asyncio.run(asked()) == [2] * 40
    assert len(caches.hits) == 40
