"""StanProgram: what it reads, what makes its key, what stanc says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dais_stan.engines.program import Declaration, StanProgram
from dais_stan.engines.pypi_stan.layout import httpstan_folder
from dais_stan.errors import StanCompileError

NORMAL = "parameters { real x; } model { x ~ std_normal(); }"


@pytest.fixture(scope="module")
def stanc() -> Path:
    return httpstan_folder() / "stanc"


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.stan").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "file_name, name",
    [
        ("kid_score", "kid_score"),
        ("naïve – 2", "naive_2"),
        ("8 schools", "model_8_schools"),
        ("模型", "model"),
    ],
)
def test_name_is_an_ascii_identifier(tmp_path: Path, file_name: str, name: str) -> None:
    (tmp_path / f"{file_name}.stan").write_text(NORMAL)
    program = StanProgram.from_file(tmp_path / f"{file_name}.stan")
    assert program.name == name
    assert program.file_name == f"{file_name}.stan"


def test_info_names_blocks_types_and_dimensions(stanc: Path) -> None:
    program = StanProgram.from_code(
        """
        data { int N; array[2] matrix[N, 3] X; }
        parameters { tuple(real, vector[2]) t; complex z; }
        transformed parameters { real a = t.1; }
        generated quantities { array[4] int k; }
        """
    )
    info = program.info(stanc)
    assert info.inputs == {"N": Declaration("int", 0), "X": Declaration("real", 3)}
    assert info.parameters == {
        "t": Declaration((Declaration("real", 0), Declaration("real", 1)), 0),
        "z": Declaration("complex", 0),
    }
    assert info.transformed_parameters == {"a": Declaration("real", 0)}
    assert info.generated_quantities == {"k": Declaration("int", 1)}


def test_includes_are_read_recursively_from_every_kind_of_path(tmp_path: Path, stanc: Path) -> None:
    folder = write(
        tmp_path / "a b, ü",
        program='#include <one.stan>\n#include ../other/two.stan\n#include "sub/four.stan"\nmodel {}',
        one="#include three.stan\n",
        three="functions { real f() { return 1; } }",
    )
    write(tmp_path / "other", two="data { int N; }")
    write(folder / "sub", four="parameters { real x; }")
    program = StanProgram.from_file(folder / "program.stan")
    assert {name for name, _ in program.includes} == {
        "one.stan",
        "../other/two.stan",
        "sub/four.stan",
        "three.stan",
    }
    info = program.info(stanc)
    assert list(info.inputs) == ["N"] and list(info.parameters) == ["x"]


def test_include_paths_come_before_the_programs_own_folder(tmp_path: Path, stanc: Path) -> None:
    write(tmp_path / "first", part="parameters { real from_path; }")
    folder = write(tmp_path, part="parameters { real from_own; }", program="#include part.stan\nmodel {}")
    assert list(StanProgram.from_file(folder / "program.stan").info(stanc).parameters) == ["from_own"]
    chosen = StanProgram.from_file(folder / "program.stan", include_paths=[tmp_path / "first"])
    assert list(chosen.info(stanc).parameters) == ["from_path"]
    from_code = StanProgram.from_code("#include part.stan\nmodel {}", include_paths=[tmp_path / "first"])
    assert list(from_code.info(stanc).parameters) == ["from_path"]


def test_key_covers_the_code_the_includes_and_the_flags(tmp_path: Path) -> None:
    folder = write(tmp_path, program="#include part.stan\nmodel {}", part="parameters { real x; }")

    def key(*flags: str) -> str:
        return StanProgram.from_file(folder / "program.stan").content_key(*flags)

    before = key("--O1")
    assert key("--O1") == before
    assert key() != before
    write(folder, part="parameters { real y; }")
    with_new_include = key("--O1")
    assert with_new_include != before
    write(folder, program="#include part.stan\nmodel { }")
    assert key("--O1") != with_new_include


def test_stancs_message_names_the_users_file(tmp_path: Path, stanc: Path) -> None:
    write(tmp_path, modèle="parameters { real x }")
    with pytest.raises(StanCompileError, match=r"Syntax error in 'modèle.stan', line 1") as error:
        StanProgram.from_file(tmp_path / "modèle.stan").info(stanc)
    assert "after variable declaration" in str(error.value)


def test_an_error_in_an_include_names_that_file(tmp_path: Path, stanc: Path) -> None:
    write(tmp_path, program="#include part.stan\nmodel {}", part="parameters { real x }")
    with pytest.raises(StanCompileError, match=r"'part.stan', line 1.*included from"):
        StanProgram.from_file(tmp_path / "program.stan").info(stanc)


def test_a_missing_include_names_the_folders_searched(tmp_path: Path, stanc: Path) -> None:
    write(tmp_path, program="#include nowhere.stan\nmodel {}")
    with pytest.raises(StanCompileError, match=r"'nowhere.stan'") as error:
        StanProgram.from_file(tmp_path / "program.stan").info(stanc)
    assert str(error.value).endswith(f"Current include paths: {tmp_path}")


def test_old_array_syntax_gets_the_new_one_as_a_hint(stanc: Path) -> None:
    with pytest.raises(StanCompileError, match=r"array\[2\] real x;"):
        StanProgram.from_code("parameters { real x[2]; } model { x ~ normal(0, 1); }").info(stanc)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary.stan").write_bytes(b"parameters { real \xff; }")
    with pytest.raises(StanCompileError, match=r"binary.stan is not UTF-8 text"):
        StanProgram.from_file(tmp_path / "binary.stan")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent.stan"):
        StanProgram.from_file(tmp_path / "absent.stan")
