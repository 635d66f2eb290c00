"""Where settings come from, and how a wrong one is named."""

from pathlib import Path

import pytest

from fednode.config import KEYS, Home, Settings, ensure_home, load_settings
from fednode.errors import AddressError, ConfigError, ExitCode


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home", tmp_path / "run")
    ensure_home(made)
    return made


def test_the_defaults_are_the_documented_ones(home: Home) -> None:
    settings = load_settings(home, {}, {})
    assert settings == Settings(
        name="node",
        peers=home.root / "peers.yaml",
        data=None,
        labels=None,
        listen="0.0.0.0:7777",
        device="auto",
        threads=settings.threads,
        gather_deadline=3600,
        skip_bad=False,
        preset=None,
        fit_images=None,
        exchange="generators",
        augment=None,
        experts_see="all",
        idle_timeout=600,
        max_latency=None,
        dp=None,
        processes=1,
    )
    assert 1 <= settings.threads <= 4


EXAMPLES = {
    "exchange": ("auto", "auto"),
    "name": ("clinic-b", "clinic-b"),
    "peers": ("/p/peers.yaml", Path("/p/peers.yaml")),
    "data": ("digits:3", "digits:3"),
    "labels": ("0,1", ("0", "1")),
    "listen": ("[::1]:0", "[::1]:0"),
    "device": ("cuda:1", "cuda:1"),
    "threads": ("3", 3),
    "processes": ("4", 4),
    "gather_deadline": ("0.5", 0.5),
    "skip_bad": ("true", True),
    "preset": ("xs", "xs"),
    "fit_images": ("64000", 64_000),
    "dtype": ("bfloat16", "bfloat16"),
    "augment": ("dihedral", "dihedral"),
    "experts_see": ("synthetic", "synthetic"),
    "idle_timeout": ("7", 7),
    "dp": ("8", 8),
    "max_latency": ("2.5", 2.5),
}


@pytest.mark.parametrize("key", KEYS)
def test_every_setting_is_honoured_from_file_variable_and_flag(home: Home, key: str) -> None:
    text, value = EXAMPLES[key]
    assert getattr(load_settings(home, {}, {f"FEDNODE_{key.upper()}": text}), key) == value
    assert getattr(load_settings(home, {key: value}, {}), key) == value
    home.config.write_text(f"{key}: '{text}'\n")
    assert getattr(load_settings(home, {}, {}), key) == value


def test_a_flag_goes_before_a_variable_before_the_file_before_the_default(home: Home) -> None:
    home.config.write_text("threads: 2\nname: filed\nskip_bad: yes\n")
    settings = load_settings(home, {"threads": 8, "name": None}, {"FEDNODE_THREADS": "4", "FEDNODE_NAME": "set"})
    assert (settings.threads, settings.name, settings.skip_bad) == (8, "set", True)
    settings = load_settings(home, {"skip_bad": False}, {"FEDNODE_NAME": ""})
    assert (settings.threads, settings.name, settings.skip_bad) == (2, "filed", False)


@pytest.mark.parametrize("text", ["", "# nothing set\n", "data:\nlabels: null\n"])
def test_a_file_that_sets_nothing_changes_nothing(home: Home, text: str) -> None:
    home.config.write_text(text)
    assert load_settings(home, {}, {}) == load_settings(Home(home.root / "other", home.runtime), {}, {}).model_copy(
        update={"peers": home.peers}
    )


def test_labels_in_the_file_are_a_list_or_a_line_and_stay_text(home: Home) -> None:
    for text in ("labels: [0, no, 007]\n", "labels: 0, no, 007\n", "labels:\n- 0\n- no\n- 007\n"):
        home.config.write_text(text)
        assert load_settings(home, {}, {}).labels == ("0", "no", "007")


def test_paths_are_relative_to_the_home_in_the_file_and_to_the_current_folder_elsewhere(
    home: Home, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/people/me")
    home.config.write_text("peers: p.yaml\ndata: folder:images\n")
    settings = load_settings(home, {}, {})
    assert (settings.peers, settings.data) == (home.root / "p.yaml", f"folder:{home.root}/images")
    settings = load_settings(home, {"peers": Path("p.yaml")}, {"FEDNODE_DATA": "npz:a:b.npz"})
    assert (settings.peers, settings.data) == (tmp_path / "p.yaml", f"npz:{tmp_path}/a:b.npz")
    settings = load_settings(home, {"peers": "~/p.yaml", "data": "folder:/abs"}, {})
    assert (settings.peers, settings.data) == (Path("/people/me/p.yaml"), "folder:/abs")


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("name", "Clinic B", "may only have lower-case letters"),
        ("labels", "a,B", "may only have lower-case letters"),
        ("device", "gpu", "'gpu' is no device; there are auto, cpu, cuda and cuda:0"),
        ("threads", "0", "must be at least 1, and this is '0'."),
        ("threads", "many", "must be a whole number, and this is 'many'."),
        ("gather_deadline", "-1", "must be at least 0, and this is '-1'."),
        ("gather_deadline", "nan", "must be a finite number"),
        ("gather_deadline", "1h", "must be a number, and this is '1h'."),
        ("idle_timeout", "0", "must be more than 0, and this is '0'."),
        ("idle_timeout", "1e99", "must be at most 31536000, and this is '1e99'."),
        ("skip_bad", "perhaps", "must be true or false, and this is 'perhaps'."),
        ("preset", "huge", "must be 'nano', 'xs', 's', 'm' or 'paper', and this is 'huge'."),
        ("augment", "spin", "must be 'none', 'shift', 'flip', 'dihedral' or 'colour', and this is 'spin'."),
    ],
)
def test_a_wrong_value_is_named_with_where_it_came_from(home: Home, key: str, text: str, why: str) -> None:
    origins = {f"flag --{key.replace('_', '-')}: ": ({key: text}, {})}
    origins[f"FEDNODE_{key.upper()}: "] = ({}, {f"FEDNODE_{key.upper()}": text})
    for origin, (flags, environ) in origins.items():
        with pytest.raises(ConfigError) as caught:
            load_settings(home, flags, environ)
        assert str(caught.value).startswith(origin + why)
    home.config.write_text(f"# ours\n\n{key}: '{text}'\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(home, {}, {})
    assert str(caught.value).startswith(f"{home.config} line 3, {key}: {why}")


@pytest.mark.parametrize("text", ["0.0.0.0:80000", "7777", "a host:1", "[::1:7"])
def test_a_wrong_listening_address_has_an_exit_code_of_its_own(home: Home, text: str) -> None:
    with pytest.raises(AddressError, match=r"^flag --listen: ") as caught:
        load_settings(home, {"listen": text}, {})
    assert caught.value.exit_code == ExitCode.ADDRESS


def test_what_a_flag_overrides_is_not_read(home: Home) -> None:
    assert load_settings(home, {"threads": 2}, {"FEDNODE_THREADS": "many"}).threads == 2


def test_an_unknown_key_is_named_with_the_nearest_known_one(home: Home) -> None:
    home.config.write_text("name: a\nthreds: 2\n")
    with pytest.raises(ConfigError, match=r"config\.yaml line 2, threds: unknown key; did you mean 'threads'\?$"):
        load_settings(home, {"threads": 2}, {})


def test_an_unknown_variable_is_named_with_the_nearest_known_one(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"^FEDNODE_THREDS: unknown variable; did you mean 'FEDNODE_THREADS'\?$"):
        load_settings(home, {}, {"FEDNODE_THREDS": "2"})


def test_variables_that_are_not_settings_pass(home: Home) -> None:
    environ = dict.fromkeys(("FEDNODE_HOME", "FEDNODE_FAILPOINT", "FEDNODE_WORKER", "FEDNODE_DEBUG", "PATH"), "x")
    assert load_settings(home, {}, environ) == load_settings(home, {}, {})


@pytest.mark.parametrize("text", ["- a\n", "words\n", "a: [\n", "name: a\nname: b\n"])
def test_a_file_that_is_no_mapping_is_refused_by_name(home: Home, text: str) -> None:
    home.config.write_text(text)
    with pytest.raises(ConfigError, match=r"config\.yaml line \d"):
        load_settings(home, {}, {})


def test_settings_are_frozen_and_closed(home: Home) -> None:
    settings = load_settings(home, {}, {})
    with pytest.raises(ValueError, match="frozen"):
        settings.threads = 2  # type: ignore[misc]
    with pytest.raises(ConfigError, match="flag --color"):
        load_settings(home, {"color": True}, {})
