"""The URL of a Redis: its forms, and the errors of wrong ones."""

import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.store import redis_url


def test_sentinels_with_their_own_user_and_a_database() -> None:
    parsed = redis_url.parse(
        "rediss+sentinel://us%40er:p%2Fw@a:26380,b,[fd00::1]:1/my-master/3"
        "?sentinel_username=watcher&sentinel_password=x%26y&ssl_ca_certs=/ca.pem"
    )
    assert (parsed.kind, parsed.primary) == ("sentinel", "my-master")
    assert parsed.hosts == (("a", 26380), ("b", 26379), ("fd00::1", 1))
    tls = {"ssl": True, "ssl_ca_certs": "/ca.pem"}
    assert parsed.options == {"username": "us@er", "password": "p/w", "db": 3, **tls}
    assert parsed.sentinel_options == {"username": "watcher", "password": "x&y", **tls}


def test_a_cluster_has_nodes_and_no_database() -> None:
    parsed = redis_url.parse("redis+cluster://:pw@a:7000,b")
    assert (parsed.kind, parsed.hosts) == ("cluster", (("a", 7000), ("b", 6379)))
    assert parsed.options == {"password": "pw"}
    assert redis_url.parse("redis+cluster://a/0").hosts == (("a", 6379),)


@pytest.mark.parametrize(
    ("url", "database"),
    [
        ("redis://a", 0),
        ("redis://a/", 0),
        ("redis://:p%2F1@a:1/12", 12),
        ("rediss://a/3/?ssl_ca_certs=/ca.pem&socket_timeout=2", 3),
        ("redis://a/0?db=4&client_name=x&health_check_interval=30", 4),
        ("unix:///run/1/redis.sock?db=5", 5),
    ],
)
def test_the_database_of_one_server(url: str, database: int) -> None:
    parsed = redis_url.parse(url)
    assert (parsed.kind, parsed.options.get("db", 0)) == ("server", database)


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_any_user_and_password_can_be_written(user: str, password: str) -> None:
    written = [urllib.parse.quote(each, safe="") for each in (user, password)]
    options = redis_url.parse("redis+sentinel://{}:{}@host/main".format(*written)).options
    assert (options["username"], options["password"]) == (user, password)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sentinel://a/main", r"write it as redis://.*redis\+sentinel://.*redis\+cluster://"),
        ("redis+sentinels://a/main", "write it as redis://"),
        ("redis+sentinel://a:26379", "give the primary's name at the Sentinels"),
        ("redis+sentinel://a/main/x", "and the database"),
        ("redis+sentinel:///main", "its hosts cannot be read"),
        ("redis+sentinel://a,,b/main", "its hosts cannot be read"),
        ("redis+sentinel://a:s3cret/main", "its hosts cannot be read"),
        ("redis+sentinel://:s3c/ret@a/main", "its hosts cannot be read"),
        ("redis+cluster://a/1", "database 0 only"),
        ("redis+cluster://a?sentinel_password=s3cret", "no option sentinel_password"),
        ("redis+cluster://a?ssl_ca_certs=x", r"no option ssl_ca_certs: write it as rediss\+cluster"),
        ("redis+sentinel://a/main?s3cret=1", "no option"),
        ("redis://:s3cret@a/1/2", "the database, a number"),
        ("redis://a/production", "the database, a number"),
        ("rediss://a/mymaster/0", r"the database, a number.*redis\+sentinel://"),
        ("redis://a/-1", "the database, a number"),
        ("redis://a/0?decode_responses=False", "no option decode_responses"),
        ("redis://a/0?connection_class=s3cret", "no option connection_class"),
        ("redis://a/0?host=s3cret", "no option host"),
        ("redis://a/0?path=/s3cret", "no option path"),
        ("unix:///run/redis.sock?s3cret=1", "no option"),
        ("redis://a?ssl_ca_certs=x", "no option ssl_ca_certs: write it as rediss://"),
    ],
)
def test_a_wrong_url_says_what_to_write(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as refused:
        redis_url.parse(url)
    assert "option s3cret" in str(refused.value) or "s3c" not in str(refused.value)
