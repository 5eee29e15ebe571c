"""Settings every test shares."""

import compileall
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Starting Spark for every command that loads three records would take minutes; the tests of the
# pipeline say themselves where they run.
os.environ.setdefault("OMNIGRAPH_LOAD_ENGINE", "local")

# A shared machine makes single examples slow now and then; time is measured in bench/, not here.
settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")

SPARK_CONF = {
    "spark.master": "local[2,4]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # Kernels that fail on purpose are among the tests.
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parent),
}


@pytest.fixture(scope="session")
def spark():
    """Two cores, four attempts. One for the whole process: a second one would be this one again,
    without the requested resource."""
    from omnigraph.pipeline.spark_session import spark as make_session

    session = make_session(conf=SPARK_CONF)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server():
    """A server like S3, in a process of its own; every test takes a prefix of its own."""
    from s3_server import running_s3_server

    with running_s3_server() as running:
        yield running


@pytest.fixture
def tables_in_turn(monkeypatch):
    """Writes through `places` move one table after the other: a cut then means one thing."""
    monkeypatch.setenv("OMNIGRAPH_WRITE_CONCURRENCY", "1")


def pytest_configure(config):
    """Compile the package once: where Python writes no bytecode, each process would do it again."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(__file__).parents[1] / "src", quiet=2)


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write what the code gives now into the golden files, to be reviewed with git diff",
    )
