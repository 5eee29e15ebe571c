"""Settings every test shares."""

import os

from hypothesis import HealthCheck, settings

# Starting Spark for every command that loads three records would take minutes; the tests of the
# pipeline say themselves where they run.
os.environ.setdefault("OMNIGRAPH_LOAD_ENGINE", "local")

# A shared machine makes single examples slow now and then; time is measured in bench/, not here.
settings.register_profile(
    "default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("default")


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write what the code gives now into the golden files, to be reviewed with git diff",
    )
