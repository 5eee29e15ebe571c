"""The benchmarks are no installed package, so the tests and the children they start must be told
where to find them, and the children also where these tests keep their systems."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent.parent

# In front of `tests`, whose folder `bench` would otherwise shadow the package.
sys.path[:0] = [str(PROJECT), str(HERE)]


@pytest.fixture(autouse=True, scope="session")
def _children_find_the_systems_under_test():
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), before]))
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before
