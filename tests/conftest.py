"""Settings that hold for every test."""

import os

from support.paths import TESTS

# Worker processes must find the tests' own helpers, as they find the installed packages.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))
