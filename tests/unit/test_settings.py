import json

import pytest

from slanglab.settings import KEYS, Settings, SettingsError


@pytest.fixture
def file(tmp_path):
    return tmp_path / "sub" / "settings.json"


def test_defaults_without_a_file(file):
    settings = Settings(file)
    assert {name: settings[name] for name in KEYS} == {name: key.default for name, key in KEYS.items()}
    assert settings.problems == []


def test_a_change_is_kept_for_the_next_session(file):
    Settings(file).set("report", "short")
    assert Settings(file)["report"] == "short"
    assert json.loads(file.read_text()) == {"report": "short"}


def test_unknown_names_and_values_say_what_there_is(file):
    settings = Settings(file)
    with pytest.raises(
        SettingsError, match="device, report, check, path, gradients, timing, guard, engine, include"
    ):
        settings.set("colour", "red")
    with pytest.raises(SettingsError, match="full, short, off"):
        settings.set("report", "loud")
    with pytest.raises(SettingsError, match="colour"):
        settings["colour"]
    assert not file.exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json", "cannot be read"),
        ("[1, 2]", "JSON object"),
        ('{"report": 3}', "takes text"),
        ('{"report": "loud"}', "loud"),
        ('{"colour": "red"}', "colour"),
        ('{"__import__": "os"}', "__import__"),
        ("[" * 50_000, "cannot be read"),
        ('{"report": "' + "x" * 100_000 + '"}', "64 kB"),
        ("!!python/object/apply:os.system ['true']", "cannot be read"),
    ],
)
def test_a_bad_file_is_plain_data_and_its_faults_are_named(file, text, says):
    file.parent.mkdir()
    file.write_text(text)
    settings = Settings(file)
    assert settings["report"] == "full"
    (problem,) = settings.problems
    assert says in problem


def test_folders_are_checked_and_absolute(file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lib").mkdir()
    settings = Settings(file)
    settings.set("include", "lib")
    assert settings.folders("include") == [(tmp_path / "lib").resolve()]
    with pytest.raises(SettingsError, match="nowhere"):
        settings.set("include", "nowhere")


def test_a_change_that_cannot_be_kept_still_holds(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    settings = Settings(blocked / "settings.json")
    with pytest.raises(SettingsError, match="for this session"):
        settings.set("report", "off")
    assert settings["report"] == "off"
