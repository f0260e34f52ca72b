import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_settings(tmp_path_factory):
    """Keep the settings of whoever runs the tests out of them; the caches are shared, since they only save time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLANGLAB_CONFIG", str(tmp_path_factory.mktemp("config")))
        yield
