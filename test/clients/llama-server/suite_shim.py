# A plugin of pytest for llama-server's own tests: nothing is downloaded, and a test that cannot be run here is skipped with the reason
# that differences.txt gives.

import os
import re
from pathlib import Path

import pytest
import utils

models = Path(os.environ["LLAMA_SUITE_MODELS"])


def read_differences():
    """(kind, pattern of test names, reason), where the kind is `cannot`, `absent` or `differs`."""
    kind, reason = "", ""
    for line in (Path(__file__).parent / "differences.txt").read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("  "):
            yield kind, line.strip(), reason
        else:
            kind, reason = line.split(": ", 1)


differences = list(read_differences())


def difference(item):
    """What is known of a test, by the first pattern that its name has."""
    # Parameters have slashes, too.
    name = item.nodeid.split("/", 1)[-1].removeprefix("test_")
    for kind, pattern, reason in differences:
        if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name, re.DOTALL):
            return kind, reason
    return "", ""


def download_file(url, output_file_path=None):
    known = models / url.split("/")[-1]
    if not known.exists():
        pytest.skip(f"needs {url}")
    return str(known)


# Before the tests import them by name.
utils.download_file = download_file
utils.ServerPreset.load_all = staticmethod(lambda: None)
start = utils.ServerProcess.start


def started(self, *args, **kwargs):
    try:
        return start(self, *args, **kwargs)
    except RuntimeError as error:
        pytest.skip(f"the server does not start: {error}")


utils.ServerProcess.start = started


def pytest_collection_modifyitems(items):
    for item in items:
        kind, reason = difference(item)
        if kind in ("cannot", "absent"):
            item.add_marker(pytest.mark.skip(reason=f"{kind}: {reason}"))
        elif kind == "differs":
            # One that passes all the same is counted as such, and its line should go.
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False))
