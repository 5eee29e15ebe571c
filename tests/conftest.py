"""Settings every test shares."""

from hypothesis import HealthCheck, settings

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
