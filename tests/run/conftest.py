"""Worker processes that the tests of fits on Dask share; they are started once."""

import pytest
from support.machines import local_cluster, sparse_rows, stored


@pytest.fixture(scope="session")
def cluster():
    pytest.importorskip("distributed")
    with local_cluster(3) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    import distributed

    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(3, timeout=60)
        yield client


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("rows"), sparse_rows())
