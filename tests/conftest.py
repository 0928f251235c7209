"""Settings that hold for every test, and the object stores that several share."""

import os
from collections.abc import Iterator

import pytest

from support.object_stores import BUCKET, STORES, Proxy, own_clients
from support.paths import TESTS

# Worker processes must find the tests' own helpers, as they find the installed packages.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))


@pytest.fixture(scope="module", params=STORES)
def object_store_server(request: pytest.FixtureRequest) -> Iterator[tuple[str, Proxy, dict[str, str]]]:
    """Each kind of object store: its scheme, the proxy before it, and the environment in which clients find it."""
    with own_clients(request.param), STORES[request.param]() as (proxy, environment):
        yield request.param, proxy, environment


@pytest.fixture
def object_store(
    object_store_server: tuple[str, Proxy, dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> tuple[str, Proxy]:
    """The URL of a folder of this test's own, and the proxy before it."""
    scheme, proxy, environment = object_store_server
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    proxy.reset()
    return f"{scheme}://{BUCKET}/{request.node.name.partition('[')[0]}", proxy
