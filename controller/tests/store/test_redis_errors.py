"""Redis's errors as older and newer redis-py raise them."""

import pytest
from redis.exceptions import ClusterDownError, ConnectionError, MovedError, ResponseError
from steelyard_controller.store import redis_errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MovedError("9189 127.0.0.1:7001"), "ASK"),
        (ClusterDownError("The cluster is down"), "CLUSTERDOWN"),
        # redis-py 5.0.1
        (ResponseError("MOVED 9189 127.0.0.1:7001"), "MOVED"),
        (ResponseError("CROSSSLOT Keys in request don't hash to the same slot"), "CROSSSLOT"),
        (
            ResponseError("Command # 1 (EVAL ...) of pipeline caused error: MOVED 9189 127.0.0.1:7001"),
            "MOVED",
        ),
        (ResponseError("WRONGTYPE Operation against a key"), None),
        (ResponseError("nobody MOVED it"), None),
    ],
)
def test_a_redirect_of_a_cluster_is_known_by_its_class_or_its_words(
    error: Exception, code: str | None
) -> None:
    assert redis_errors.cluster_code(error) == code


def _failed(message: str) -> ConnectionError:
    try:
        try:
            raise OSError(1, "certificate verify failed")
        except OSError:
            raise ConnectionError(message)  # noqa: B904 (as redis-py 5.0.1 does)
    except ConnectionError as error:
        return error


def test_the_systems_reason_of_a_failed_connection_is_said_once() -> None:
    said = "Error 1 connecting to 127.0.0.1:6379. certificate verify failed."
    assert redis_errors.text(_failed(said)) == said
    short = "Error 1 connecting to 127.0.0.1:6379. 1."
    assert redis_errors.text(_failed(short)) == f"{short} certificate verify failed"
    assert redis_errors.text(ConnectionError()) == "ConnectionError"
