"""Settings from flags and from `pyproject.toml`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from amp_migrate import config
from amp_migrate.config import ConfigError, Settings, load, torch_version

Write = Callable[..., Path]


def test_defaults(tmp_path: Path) -> None:
    config = load([tmp_path])
    assert config.settings == Settings()
    assert config.folder == tmp_path.resolve()


def test_every_key(write: Write, tmp_path: Path) -> None:
    write(
        "pyproject.toml",
        """
        [tool.amp-migrate]
        dtype = "auto"
        device = "cuda"
        eval = true
        guard-scheduler = true
        target-torch = "2.0.1"
        unsafe = true
        strict = true
        exclude = ["legacy/"]
        select = ["a"]
        ignore = ["b"]
        extend-select = ["c"]
        [tool.amp-migrate.per-file-ignores]
        "tests/*" = ["d", "e"]
        """,
    )
    assert load([tmp_path]).settings == Settings(
        dtype="auto",
        device="cuda",
        eval=True,
        guard_scheduler=True,
        target_torch=(2, 0),
        unsafe=True,
        strict=True,
        exclude=("legacy/",),
        select=("a",),
        ignore=("b",),
        extend_select=("c",),
        per_file_ignores=(("tests/*", ("d", "e")),),
    )


def test_flags_win_where_they_are_given(write: Write, tmp_path: Path) -> None:
    write("pyproject.toml", '[tool.amp-migrate]\ndtype = "auto"\nstrict = true\nexclude = ["a"]\n')
    flags = {"dtype": "bfloat16", "strict": False, "exclude": (), "device": None}
    settings = load([tmp_path], flags).settings
    assert settings == Settings(dtype="bfloat16", strict=True, exclude=("a",))


def test_the_nearest_file_with_a_table(write: Write, tmp_path: Path) -> None:
    write("pyproject.toml", '[tool.amp-migrate]\ndevice = "mps"\n')
    write("a/pyproject.toml", "[tool.amp-migrate]\ndevice = 'xpu'\n")
    write("a/b/pyproject.toml", "# amp-migrate is not set up here\n[tool.ruff]\n")
    write("c/pyproject.toml", "not toml, and none of our business")
    first, second, third = write("a/b/x.py"), write("a/y.py"), write("c/z.py")
    assert (load([first]).settings.device, load([first]).folder) == (
        "xpu",
        (tmp_path / "a").resolve(),
    )
    assert load([first, second]).settings.device == "xpu"
    assert load([third]).settings.device == "mps"
    assert load([first, third]).settings.device == "mps"


def test_standard_input_uses_the_current_folder(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("pyproject.toml", "[tool.amp-migrate]\nstrict = true\n")
    monkeypatch.chdir(tmp_path)
    assert load([]).settings.strict


@pytest.mark.parametrize(
    ("toml", "part"),
    [
        (
            'dtype = "float8"',
            "tool.amp-migrate.dtype: must be one of float16, bfloat16, auto, not 'float8'",
        ),
        ("strict = 1", "tool.amp-migrate.strict: must be true or false, not 1"),
        ("device = 3", "tool.amp-migrate.device: must be one of cuda, xpu, mps, cpu, not 3"),
        ("exclude = 'a'", "tool.amp-migrate.exclude: must be a list of strings"),
        ("select = [1]", "tool.amp-migrate.select: must be a list of strings"),
        ("per-file-ignores = []", "tool.amp-migrate.per-file-ignores: must be a table"),
        ("target-torch = '1.4'", "torch 1.4 has no automatic mixed precision"),
        ("guard_scheduler = true", "no such setting; did you mean guard-scheduler?"),
        ("zzz = true", "tool.amp-migrate.zzz: no such setting"),
        ("zzz = ", "line 2"),
        ("a = '\\xff'", "pyproject.toml"),
    ],
)
def test_errors_name_file_and_key(write: Write, tmp_path: Path, toml: str, part: str) -> None:
    path = write("pyproject.toml", f"[tool.amp-migrate]\n{toml}\n".replace("\\xff", "\0"))
    with pytest.raises(ConfigError) as caught:
        load([tmp_path])
    assert str(caught.value).startswith(f"{path}: ")
    assert part in str(caught.value)


@pytest.mark.parametrize("data", [b"[tool.amp-migrate]\n# \xff\n", b"tool = 1\n'amp-migrate' = ["])
def test_files_that_are_no_toml(write: Write, tmp_path: Path, data: bytes) -> None:
    path = write("pyproject.toml", data)
    with pytest.raises(ConfigError, match=r"pyproject\.toml") as caught:
        load([tmp_path])
    assert str(caught.value).startswith(f"{path}: ")


def test_a_table_that_is_none(write: Write, tmp_path: Path) -> None:
    write("pyproject.toml", "[tool]\namp-migrate = 1\n")
    with pytest.raises(ConfigError, match="must be a table"):
        load([tmp_path])
    write("pyproject.toml", "tool = 'amp-migrate'\n")
    assert load([tmp_path]).settings == Settings()


@pytest.mark.parametrize(
    ("project", "expected"),
    [
        ('dependencies = ["numpy", "torch>=2.0"]', (2, 0)),
        ("dependencies = [\"torch ~= 2.5.1; python_version > '3'\"]", (2, 5)),
        ('dependencies = ["torch==1.13.1"]', (1, 13)),
        ('dependencies = ["torch[opt-einsum] <3, !=2.2, >=2.1"]', (2, 1)),
        ('dependencies = ["torch>=1.2"]', (1, 2)),
        ('dependencies = ["torchvision>=0.15", "torch-scatter>=2.0", "torch", "torch<3"]', None),
        ('dependencies = "torch>=2.0"', (2, 0)),
        ("dependencies = [", None),
        ("", None),
    ],
)
def test_the_oldest_torch_of_the_project(
    write: Write, tmp_path: Path, project: str, expected: tuple[int, int] | None
) -> None:
    write("pyproject.toml", f"[project]\nname = 'torch-thing'\n{project}\n")
    path = write("a.py")
    assert load([path]).settings.target_torch is None
    assert load([path]).settings.admitted_torch == expected
    assert load([path], {"target_torch": (2, 6)}).settings.target_torch == (2, 6)


def test_the_project_stands_above_the_named_folder(write: Write, tmp_path: Path) -> None:
    write("pyproject.toml", '[tool.poetry.dependencies]\ntorch = ">=1.10.1, <1.13"\n')
    path = write("package/train.py")
    assert load([path.parent]).settings.admitted_torch == (1, 10)
    (tmp_path / "package" / ".git").mkdir()
    assert load([path.parent]).settings.admitted_torch is None


def test_torch_versions() -> None:
    assert torch_version("2.10") == (2, 10)
    assert torch_version("1.6.0") == (1, 6)
    for value in ("2", "two", "2.x", 2.0, None):
        with pytest.raises(ConfigError, match="must be a version"):
            torch_version(value)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("half", "float16"),
        ("fp16", "float16"),
        ("bf16", "bfloat16"),
        ("BF16", "bfloat16"),
        ("auto", "auto"),
    ],
)
def test_short_dtypes(word: str, meant: str) -> None:
    assert config.dtype(word) == meant


def test_verify_compares_one_precision_or_both() -> None:
    assert config.verified_dtype("bf16") == "bfloat16"
    assert config.verified_dtype("both") == "both"
    with pytest.raises(config.ConfigError, match="must be one of float16, bfloat16, both"):
        config.verified_dtype("auto")


@pytest.mark.parametrize("word", ["cuda", "xpu", "mps", "cpu"])
def test_devices(word: str) -> None:
    assert config.device(word) == word


@pytest.mark.parametrize("word", ["gpu", "cuda:0", "", 1])
def test_words_that_are_no_device(word: object) -> None:
    with pytest.raises(config.ConfigError, match="must be one of cuda, xpu, mps, cpu"):
        config.device(word)


def test_words_that_are_no_dtype() -> None:
    with pytest.raises(config.ConfigError, match="must be one of float16"):
        config.dtype("float8")
