import pytest

from behaviour.served_copies import ServedCopy


@pytest.fixture(scope="session", autouse=True)
def ending_servers():
    """End the servers that tests of this folder have started."""
    yield
    ServedCopy.close_all()
