"""A watch of the API: its objects stay whole while the API server is away, slow, faulty, or forgets."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from kubernetes.config import incluster_config
from steelyard_controller.discovery.api_server import AccessError, ApiServer
from steelyard_controller.discovery.objects import EndpointSlice
from steelyard_controller.discovery.watch import ENDPOINT_SLICES, SERVICES, Timing, Watch

from testing.pods_api_server import TOKEN, PodsApiServer, pods_api_server
from testing.waiting import PATIENCE_S

from .recorded_api import RECORDED, RecordedApi, endpoint_slice, service

pytestmark = pytest.mark.integration

# As short as possible, because every step is waited for and a late one stays late.
QUICK = Timing(watch_s=1.0, late_s=1.0, page_s=1.0, first_pause_s=0.05, longest_pause_s=0.2)
PATIENT = Timing(watch_s=PATIENCE_S, late_s=PATIENCE_S, page_s=PATIENCE_S, first_pause_s=0.05)

Steps = Callable[[Watch[EndpointSlice]], Awaitable[None]]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[RecordedApi]:
    """A healthy server without any objects."""
    made = RecordedApi(tmp_path)
    yield made
    made.stop()


def nothing() -> None:
    """Do nothing."""


async def until(look: Callable[[], object]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PATIENCE_S):
        while not look():
            await asyncio.sleep(0.01)


def watching(
    api: RecordedApi, steps: Steps, *, timing: Timing = PATIENT, namespace: str | None = None
) -> None:
    """Run steps beside a watch of EndpointSlices, which ends with them."""

    async def run() -> None:
        server = ApiServer({"KUBECONFIG": str(api.kubeconfig)})
        watch = Watch(
            server, ENDPOINT_SLICES, namespace=namespace, clock=time.monotonic, changed=nothing, timing=timing
        )
        task = asyncio.create_task(watch.run())
        try:
            await steps(watch)
        finally:
            task.cancel()
            async with asyncio.timeout(PATIENCE_S / 2):
                await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def addresses(watch: Watch[EndpointSlice]) -> dict[str, list[str]] | None:
    """Return the known addresses by slice; None before the first list."""
    if watch.objects is None:
        return None
    return {
        name: [address for each in there.endpoints or () for address in each.addresses or ()]
        for (_, name), there in watch.objects.items()
    }


def test_what_is_there_is_listed_and_what_changes_is_watched(api: RecordedApi) -> None:
    api.put(endpoint_slice("a=10.0.0.1"))

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: addresses(watch) == {"web-1": ["10.0.0.1"]})
        api.put(endpoint_slice("a=10.0.0.1", "b=10.0.0.2"))
        await until(lambda: addresses(watch) == {"web-1": ["10.0.0.1", "10.0.0.2"]})
        api.put(endpoint_slice("c=10.0.0.3", name="web-2"))
        api.delete(endpoint_slice())
        await until(lambda: addresses(watch) == {"web-2": ["10.0.0.3"]})
        assert (watch.lists, watch.fault) == (1, None)
        assert watch.last_answer_s is not None

    watching(api, steps)
    assert set(api.tokens) == {"Bearer of-the-test"}


def test_a_list_of_many_pages_is_whole(api: RecordedApi) -> None:
    api.page_objects = 2
    api.put(*(endpoint_slice(f"a=10.0.0.{n}", name=f"web-{n}") for n in range(1, 8)))

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: watch.objects)
        assert len(addresses(watch) or ()) == 7
        await until(lambda: api.watching)

    watching(api, steps)
    assert [given["continue"] for _, given in api.requests if "continue" in given] == ["2", "4", "6"]


def test_a_list_that_breaks_off_between_two_pages_changes_nothing(api: RecordedApi) -> None:
    api.put(*(endpoint_slice(f"a=10.0.0.{n}", name=f"web-{n}") for n in range(1, 5)))

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: watch.objects)
        # The next list has a second page, and every answer to that is cut off.
        api.page_objects = 2
        api.ill_from_page = "2"
        api.forget()
        await until(lambda: watch.fault)
        await until(lambda: sum("continue" in given for _, given in api.requests) >= 3)
        assert len(addresses(watch) or ()) == 4
        assert watch.lists == 1
        api.ill_from_page = None
        await until(lambda: watch.lists == 2 and watch.fault is None)
        assert len(addresses(watch) or ()) == 4

    watching(api, steps)


def test_a_watch_that_ends_goes_on_where_it_was_without_a_list(api: RecordedApi) -> None:
    api.put(endpoint_slice("a=10.0.0.1"))

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: api.watching)
        for n in range(2, 5):
            api.end_watches()
            api.put(endpoint_slice(f"a=10.0.0.{n}"))
            wanted = {"web-1": [f"10.0.0.{n}"]}
            await until(lambda wanted=wanted: addresses(watch) == wanted)  # type: ignore[misc]
        assert watch.lists == 1

    watching(api, steps)


def test_a_bookmark_moves_on_where_the_watch_goes_on_from(api: RecordedApi) -> None:
    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: api.watching)
        api.put(service("other"))  # It is of another kind: only a bookmark has its revision.
        first = max(int(given["resourceVersion"]) for _, given in api.requests if "watch" in given)
        await until(lambda: any(int(given.get("resourceVersion", "0")) > first for _, given in api.requests))
        assert watch.lists == 1

    watching(api, steps, timing=QUICK)


def test_what_is_forgotten_is_listed_again_and_what_went_meanwhile_is_gone(api: RecordedApi) -> None:
    gone = endpoint_slice("b=10.0.0.2", name="web-2")
    api.put(endpoint_slice("a=10.0.0.1"), gone)

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: api.watching)
        api.lose_unseen(gone)
        await until(lambda: addresses(watch) == {"web-1": ["10.0.0.1"]})
        assert watch.lists == 2
        await until(lambda: watch.fault is None)

    watching(api, steps)


@pytest.mark.parametrize(
    ("illness", "said"),
    [
        ("hang", "no whole list came within 1 s"),
        ("drip", "no whole list came within 1 s"),
        ("cut", "the API server is unreachable"),
        ("garbage", "is this a Kubernetes API server"),
        ("empty", "is this a Kubernetes API server"),
        (401, "does not accept the credentials (401): Unauthorized"),
        (403, "no right to list endpointslices in all namespaces"),
        (404, "older than 1.21"),
        (429, "answers 429"),
        (500, "answers 500"),
        (503, "answers 503"),
    ],
)
def test_an_api_server_that_is_ill_from_the_start_is_a_fault_until_it_is_well(
    api: RecordedApi, illness: str | int, said: str
) -> None:
    api.illness = illness
    api.put(endpoint_slice("a=10.0.0.1"))

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: watch.fault is not None and said in watch.fault)
        assert watch.objects is None
        assert watch.last_answer_s is None
        api.illness = None
        await until(lambda: addresses(watch) == {"web-1": ["10.0.0.1"]})
        assert watch.fault is None

    watching(api, steps, timing=QUICK)


@pytest.mark.parametrize("illness", ["hang", "drip", "cut", "garbage", "empty", 401, 403, 410, 500])
def test_an_api_server_that_falls_ill_changes_nothing_and_is_followed_again(
    api: RecordedApi, illness: str | int
) -> None:
    api.put(endpoint_slice("a=10.0.0.1"))

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: api.watching)
        api.illness = illness
        api.end_watches()
        api.put(endpoint_slice("a=10.0.0.9"))
        seen = len(api.requests)
        await until(lambda: len(api.requests) >= seen + 2)
        await until(lambda: watch.fault is not None or illness == 410)
        there = addresses(watch)
        assert there in ({"web-1": ["10.0.0.1"]}, {"web-1": ["10.0.0.9"]})
        api.illness = None
        await until(lambda: watch.fault is None and addresses(watch) == {"web-1": ["10.0.0.9"]})

    watching(api, steps, timing=QUICK)


@pytest.mark.parametrize(("status", "lists"), [(401, 1), (403, 1), (429, 1), (500, 1), (503, 1), (400, 2)])
def test_only_an_unknown_revision_makes_it_list_everything_again(
    api: RecordedApi, status: int, lists: int
) -> None:
    api.put(endpoint_slice("a=10.0.0.1"))

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: api.watching)
        api.illness = status
        api.end_watches()
        api.put(endpoint_slice("a=10.0.0.9"))
        await until(lambda: watch.fault is not None)
        api.illness = None
        await until(lambda: watch.fault is None and addresses(watch) == {"web-1": ["10.0.0.9"]})
        assert watch.lists == lists

    watching(api, steps, timing=QUICK)


@pytest.mark.parametrize(
    ("retry_after", "asked"), [("30", 1), ("x", 3), (None, 3)], ids=["30 s", "no number", "none"]
)
def test_it_is_not_asked_before_the_time_that_it_asks_for(
    api: RecordedApi, retry_after: str | None, asked: int
) -> None:
    api.illness, api.retry_after = 429, retry_after

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: watch.fault is not None and len(api.requests) >= asked)
        await asyncio.sleep(0.5 if asked == 1 else 0.0)

    watching(api, steps, timing=Timing(first_pause_s=0.05, longest_pause_s=30.0))
    assert (len(api.requests) == 1) == (asked == 1)


def test_an_api_server_that_is_gone_changes_nothing(api: RecordedApi) -> None:
    api.put(endpoint_slice("a=10.0.0.1"))

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: api.watching)
        await asyncio.to_thread(api.stop)
        await until(lambda: watch.fault)
        assert "the API server is unreachable" in str(watch.fault)
        assert addresses(watch) == {"web-1": ["10.0.0.1"]}

    watching(api, steps)


def test_a_namespace_without_rights_is_named_with_the_remedy(api: RecordedApi) -> None:
    api.forbidden = {"shop"}

    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: watch.fault)
        assert watch.fault == (
            f"no right to list endpointslices in namespace shop ({RECORDED['statuses']['403']['message']}): "
            "give the controller's ServiceAccount list and watch on "
            "endpointslices.discovery.k8s.io by a Role and RoleBinding in shop"
        )

    watching(api, steps, namespace="shop")


def test_a_server_that_ends_each_watch_at_once_is_not_asked_without_pause(api: RecordedApi) -> None:
    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: api.watching)
        began_s, before = time.monotonic(), len(api.requests)
        for _ in range(100):
            api.end_watches()
            await asyncio.sleep(0.01)
        paused_s = time.monotonic() - began_s
        assert len(api.requests) - before <= paused_s / QUICK.first_pause_s + 2
        assert watch.fault is None

    watching(api, steps, timing=QUICK)


def test_services_without_the_annotation_are_not_kept(api: RecordedApi) -> None:
    plain = service("plain")
    del plain["metadata"]["annotations"]
    api.put(plain, service("web"))

    async def run() -> None:
        server = ApiServer({"KUBECONFIG": str(api.kubeconfig)})
        watch = Watch(server, SERVICES, namespace=None, clock=time.monotonic, changed=nothing, timing=PATIENT)
        task = asyncio.create_task(watch.run())
        await until(lambda: watch.objects is not None and set(watch.objects) == {("shop", "web")})
        api.put(service("plain"))
        await until(lambda: len(watch.objects or ()) == 2)
        api.put(plain)
        await until(lambda: set(watch.objects or ()) == {("shop", "web")})
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())


def test_a_token_that_is_renewed_is_the_one_that_is_sent(api: RecordedApi) -> None:
    async def steps(watch: Watch[EndpointSlice]) -> None:
        await until(lambda: api.watching)
        api.kubeconfig.write_text(api.kubeconfig.read_text().replace("of-the-test", "the-next"))
        api.illness = 401
        api.end_watches()
        await until(lambda: "Bearer the-next" in api.tokens)
        api.illness = None
        await until(lambda: watch.fault is None)

    watching(api, steps)


def test_in_a_pod_the_accounts_ca_and_token_are_used_and_a_new_token_within_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now()  # noqa: DTZ005 (as the client has it)
    clock = SimpleNamespace(now=lambda: now)
    monkeypatch.setattr(incluster_config, "datetime", SimpleNamespace(datetime=clock, timedelta=timedelta))

    def sent(api: PodsApiServer) -> str:
        return api.asked[-1][1]["authorization"]

    async def run(api: PodsApiServer) -> None:
        nonlocal now
        async with await ApiServer(api.environment, account=api.folder).connect() as client:
            assert (await client.get("/api/v1/services")).status_code == 200
            assert sent(api) == f"bearer {TOKEN}"
            (api.folder / "token").write_text("the-next\n")
            now += timedelta(minutes=1)
            assert (await client.get("/api/v1/services")).status_code == 200
            assert sent(api) == "bearer the-next"

    with pods_api_server(tmp_path / "account") as api:
        asyncio.run(run(api))


def test_in_a_pod_a_server_that_the_accounts_ca_does_not_vouch_for_is_told_no_token(tmp_path: Path) -> None:
    async def run(api: PodsApiServer, account: Path) -> None:
        async with await ApiServer(api.environment, account=account).connect() as client:
            with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
                await client.get("/api/v1/services")

    with pods_api_server(tmp_path / "one") as api, pods_api_server(tmp_path / "other") as other:
        asyncio.run(run(api, other.folder))
        assert api.asked == []


def test_a_pod_without_an_account_is_told(tmp_path: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(AccessError, match=r"token file does not exist.*run in a pod with a ServiceAccount"):
        ApiServer(environment, account=tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "no configuration for the API server"), ("{", "no configuration"), ("a: 1", "no configuration")],
)
def test_without_a_way_to_the_api_server_it_says_so(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "config"
    if text is not None:
        file.write_text(text)
    with pytest.raises(AccessError, match=said):
        ApiServer({"KUBECONFIG": str(file)})
