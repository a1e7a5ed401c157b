"""A simulated engine as a process: OpenAI's completions, streamed, COMPRESSION times as fast as in reality.

    python -m steelyard_loadtest.inference.engine_server PORT SIZE COMPRESSION

POST /v1/completions streams an event every STREAM_INTERVAL tokens (vLLM's --stream-interval), and the usage
at the end. `seed` in the body is the answer's number of tokens, unknown to balancers. GET /metrics has vLLM's
names (docs.vllm.ai, usage/metrics), /get_load the load for sglang-router's power_of_two, /state the lab's
plotted state. POST /speed?to= makes it slower, /reset empties it, and everything else is as routers expect
it.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from steelyard_loadtest.inference.arrivals import CHARACTERS_PER_TOKEN
from steelyard_loadtest.inference.blocks import BLOCK_TOKENS
from steelyard_loadtest.inference.engine import Engine, Sequence

STREAM_INTERVAL = 8
"""Each event costs engine, balancer and client some CPU of this one machine."""

LATE_S = 0.05
"""A later engine continues from now: the machine was busy, and a burst would be no better."""

TOKENS = 'data: {"choices": [{"index": 0, "text": " and so on"}]}\n\n'

METRICS = {
    "num_requests_running": "running", "num_requests_waiting": "waiting", "kv_cache_usage_perc": "held",
    "gpu_cache_usage_perc": "held", "prompt_tokens_total": "prompt_tokens",
    "generation_tokens_total": "generated_tokens", "prefix_cache_queries_total": "prompt_tokens",
    "prefix_cache_hits_total": "cached_tokens",
}  # fmt: skip


class Running:
    """An engine at work: it waits as long as each step takes."""

    def __init__(self, size: float, compression: float) -> None:
        self._engine, self._compression, self._lost_s = Engine(size=size), compression, 0.0
        self._streams: dict[Sequence, asyncio.Queue[bool]] = {}
        self._work = asyncio.Event()

    async def run(self) -> None:
        """Do one step after the other."""
        due_s = time.monotonic()
        while True:
            took_s, got = self._engine.step()
            if not took_s:
                self._work.clear()
                await self._work.wait()
                due_s = time.monotonic()
            due_s += took_s / self._compression
            late_s = max(time.monotonic() - LATE_S - due_s, 0.0)
            due_s, self._lost_s = due_s + late_s, self._lost_s + late_s * self._compression
            await asyncio.sleep(
                max(due_s - time.monotonic(), 0)
            )  # also when late, so that others have a turn
            for one in got:
                if one in self._streams and (one.ended or one.produced % STREAM_INTERVAL == 1):
                    self._streams[one].put_nowait(one.ended)

    async def complete(self, request: Request) -> Response:
        """Answer a prompt."""
        try:
            asked, step, key, keys = await request.json(), BLOCK_TOKENS * CHARACTERS_PER_TOKEN, 0, list[int]()
            prompt, output = asked["prompt"], int(asked["seed"])
            for at in range(0, len(prompt) // step * step, step):
                key = hash((key, prompt[at : at + step]))
                keys.append(key)
        except (KeyError, TypeError, ValueError) as error:
            return JSONResponse({"error": repr(error)}, 400)
        tokens = -(-len(prompt) // CHARACTERS_PER_TOKEN)
        one = Sequence(keys=tuple(keys), input_tokens=max(tokens, 1), output_tokens=max(output, 1))
        if not self._engine.add(one):
            return JSONResponse({"error": "too long"}, 400)
        self._streams[one] = asyncio.Queue()
        self._work.set()
        return StreamingResponse(self._stream(one), media_type="text/event-stream")

    async def _stream(self, one: Sequence) -> AsyncIterator[str]:
        try:
            while not await self._streams[one].get():
                yield TOKENS
            usage = {"prompt_tokens": one.input_tokens, "completion_tokens": one.output_tokens}
            cached = {"prompt_tokens_details": {"cached_tokens": one.cached_tokens}}
            yield f"data: {json.dumps({'choices': [], 'usage': usage | cached})}\n\ndata: [DONE]\n\n"
        finally:  # also when the client has left
            self._streams.pop(one, None)
            self._engine.leave(one)

    def _state(self) -> dict[str, float]:
        engine = self._engine
        counts = {"waiting": len(engine.waiting), "running": len(engine.running)}
        shares = {"held": engine.blocks.held / engine.blocks.capacity, "queue_s": engine.queue_s}
        return {**counts, **shares, "lost_s": self._lost_s, **engine.totals}

    async def other(self, request: Request) -> Response:
        """Answer every other request."""
        if request.url.path == "/state":
            return JSONResponse(self._state())
        if request.url.path == "/metrics":
            state = self._state()
            lines = [
                f'vllm:{name}{{model_name="lab"}} {state.get(own, 0)}\n' for name, own in METRICS.items()
            ]
            return PlainTextResponse("".join(lines))
        if request.url.path == "/get_load":
            return JSONResponse([{"dp_rank": 0, "num_tokens": self._engine.tokens}])
        if request.url.path == "/speed":
            self._engine.speed = float(request.query_params["to"])
        elif request.url.path == "/reset":
            self._engine = Engine(size=self._engine.size)
        return JSONResponse({"id": "lab", "model_path": "lab", "data": [{"id": "lab"}]})


async def serve(port: int, size: float, compression: float) -> None:
    """Serve until a signal."""
    running = Running(size, compression)
    routes = [
        Route("/v1/completions", running.complete, methods=["POST"]),
        Route("/{path:path}", running.other, methods=["GET", "POST"]),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes), port=port, log_level="warning", access_log=False, lifespan="off",
        timeout_keep_alive=3600, backlog=4096,
    )  # fmt: skip
    work = asyncio.create_task(running.run())
    await uvicorn.Server(config).serve()
    work.cancel()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
