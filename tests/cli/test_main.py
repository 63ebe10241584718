from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

from pdflow import PointCloud, write
from pdflow.cli import info
from pdflow.cli.main import COMMANDS, app
from pdflow.errors import LossWarning, PdflowError

RUN = "import sys; from pdflow.cli.main import main; sys.exit(main())"


def raising(error: BaseException):
    """A stand-in for a command's work that ends in `error`."""

    def work(*_: object, **__: object) -> None:
        raise error

    return work


@pytest.fixture
def broken_info(monkeypatch, scan):
    """Make `pdflow info FILE` end in the error given; returns the file."""

    def breaks(error: BaseException) -> Path:
        monkeypatch.setattr(info, "_inspect", raising(error))
        return scan

    return breaks


@pytest.fixture
def bad_files(tmp_path: Path) -> dict[str, Path]:
    """Files that no command can work on, by what is wrong with them."""
    folder = tmp_path / "bad"
    folder.mkdir()
    (folder / "empty.ply").write_bytes(b"")
    whole = folder / "whole.ply"
    write(whole, PointCloud(np.random.default_rng(0).random((50, 3))))
    (folder / "truncated.ply").write_bytes(whole.read_bytes()[:-7])
    (folder / "nan.xyz").write_text("0 0 0\n1 nan 1\n2 2 2\n")
    (folder / "infinite.xyz").write_text("0 0 0\n1 1 inf\n")
    (folder / "text.xyz").write_text("0 0 0\n1 one 1\n")
    (folder / "scan.unknown").write_text("0 0 0\n")
    (folder / "no_suffix").write_text("0 0 0\n")
    (folder / "lying.ply").write_bytes(
        whole.read_bytes().replace(b"element vertex 50", b"element vertex 999999999999")
    )
    (folder / "no_points.xyz").write_text("# nothing but a comment\n")
    names = "empty.ply truncated.ply nan.xyz infinite.xyz text.xyz scan.unknown no_suffix lying.ply"
    files = {name: folder / name for name in [*names.split(), "no_points.xyz"]}
    return {**files, "missing": folder / "missing.ply", "directory": folder}


BAD = [
    "empty.ply",
    "truncated.ply",
    "nan.xyz",
    "infinite.xyz",
    "text.xyz",
    "scan.unknown",
    "no_suffix",
    "lying.ply",
    "no_points.xyz",
    "missing",
    "directory",
]


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", ["info", "convert", "noise"])
def test_bad_input_gives_code_2_one_sentence_and_no_output(
    pdflow, bad_files, tmp_path, name, command
):
    target = tmp_path / "out.ply"
    outcome = pdflow(command, bad_files[name], *([] if command == "info" else ["-o", target]))
    assert outcome.code == 2
    assert outcome.out == ""
    lines = outcome.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert bad_files[name].name in lines[0]
    assert lines[0].endswith(".")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "bad"]


@pytest.mark.parametrize("name", ["truncated.ply", "nan.xyz", "text.xyz", "missing"])
def test_bad_input_leaves_an_old_output_as_it_was(pdflow, bad_files, tmp_path, name):
    target = tmp_path / "out.ply"
    target.write_text("old")
    assert pdflow("convert", bad_files[name], target).code == 2
    assert target.read_text() == "old"


@pytest.mark.parametrize("command", ["convert", "noise", "sample"])
@pytest.mark.parametrize(
    ("target", "said"), [("out.foo", "--to"), ("out", "--to"), ("out.stl", "holds meshes")]
)
def test_outputs_of_no_fitting_format_are_refused(
    pdflow, cloud, box, tmp_path, command, target, said
):
    write(tmp_path / "scan.npy", PointCloud(cloud.points))
    source = box if command == "sample" else tmp_path / "scan.npy"
    outcome = pdflow(command, source, "-o", tmp_path / target)
    assert outcome.code == 2
    assert said in outcome.err
    assert not (tmp_path / target).exists()


@pytest.mark.parametrize("command", ["info", "noise", "evaluate"])
def test_coordinates_too_large_to_compute_with_are_refused(pdflow, tmp_path, command):
    path = tmp_path / "far.xyz"
    path.write_text("1e200 0 0\n-1e200 1 1\n5 5 5\n")
    more = {"noise": ["-o", tmp_path / "out.xyz"], "evaluate": ["--clean", path]}
    outcome = pdflow(command, path, *more.get(command, []), "--json")
    assert outcome.code == 2
    assert f"{path}: " in outcome.err
    assert "too large to compute with" in outcome.err
    assert not (tmp_path / "out.xyz").exists()


def test_a_file_without_permission_is_refused(pdflow, scan, monkeypatch):
    monkeypatch.setattr("pdflow.io.os.access", lambda *_: False)
    outcome = pdflow("info", scan)
    assert outcome.code == 2
    assert "permission" in outcome.err


def test_a_name_that_the_system_refuses_is_bad_input(pdflow):
    outcome = pdflow("info", "x" * 5000)
    assert outcome.code == 2
    assert "name" in outcome.err.casefold()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_debug_anywhere_shows_the_traceback(pdflow, tmp_path, place):
    words = ["info", str(tmp_path / "missing.ply")]
    words.insert(place, "--debug")
    outcome = pdflow(*words)
    assert outcome.code == 2
    assert "Traceback" in outcome.err
    assert outcome.err.splitlines()[-1].startswith("error: ")


def test_debug_after_two_dashes_is_a_file_name(pdflow):
    outcome = pdflow("info", "--", "--debug")
    assert outcome.err == "error: --debug does not exist: check the name.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["info"], "Missing argument"),
        (["info", "--bad", "x.ply"], "--bad"),
        (["inf"], "No such command"),
        (["noise", "x.ply", "-o", "y.ply", "--level", "much"], "--level"),
        (["noise", "x.ply", "-o", "y.ply", "--level", "-1"], "--level"),
        (["sample", "x.off", "-o", "y.ply", "--points", "0"], "--points"),
        (["sample", "x.off", "-o", "y.ply", "--method", "odd"], "--method"),
        (["noise", "x.ply"], "--output"),
    ],
)
def test_bad_usage_gives_code_2_and_one_line_that_says_where_to_read_on(pdflow, words, said):
    outcome = pdflow(*words)
    assert outcome.code == 2
    assert outcome.out == ""
    (line,) = outcome.err.splitlines()
    assert line.startswith("error: ")
    assert said in line
    assert "--help`" in line


def test_unexpected_errors_give_code_1_one_sentence_and_a_hint(pdflow, broken_info):
    outcome = pdflow("info", broken_info(ZeroDivisionError("division\nby zero")))
    assert outcome.code == 1
    (line,) = outcome.err.splitlines()
    assert line.startswith("error: ZeroDivisionError: division by zero")
    assert "--debug" in line


def test_debug_shows_where_an_unexpected_error_happened(pdflow, broken_info):
    outcome = pdflow("info", broken_info(ZeroDivisionError("x")), "--debug")
    assert outcome.code == 1
    assert "Traceback" in outcome.err


def test_too_little_memory_is_said(pdflow, broken_info):
    outcome = pdflow("info", broken_info(MemoryError("1 TiB")))
    assert outcome.code == 1
    assert outcome.err == "error: This needs more memory than there is (1 TiB).\n"


def test_ctrl_c_gives_code_130_and_one_line(pdflow, broken_info):
    outcome = pdflow("info", broken_info(KeyboardInterrupt()))
    assert outcome.code == 130
    assert outcome.err == "stopped: no unfinished file was left behind.\n"


@pytest.mark.parametrize("module", ["pdflow.cli.main", "typer", "pdflow.cli.progress"])
def test_ctrl_c_while_the_command_is_loaded_gives_one_line(module):
    script = (
        "import builtins, sys\n"
        "load = builtins.__import__\n"
        "def stop(name, *rest):\n"
        f"    if name == {module!r}: raise KeyboardInterrupt\n"
        "    return load(name, *rest)\n"
        "builtins.__import__ = stop\n"
        "from pdflow.cli import start\n"
        "sys.exit(start())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "stopped: no unfinished file was left behind.\n"


def test_an_unexpected_end_of_data_does_not_look_like_ctrl_c(pdflow, broken_info):
    outcome = pdflow("info", broken_info(EOFError("Ran out of input")))
    assert outcome.code == 1
    assert outcome.err.strip().startswith("error: EOFError: Ran out of input; this is a bug")


def test_summaries_of_commands_are_not_cut(pdflow, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert "..." not in pdflow("--help").out.partition("Commands:")[2]


def test_no_words_and_help_show_the_commands(pdflow):
    assert pdflow().out == pdflow("--help").out
    for command in COMMANDS:
        assert f"\n  {command.NAME} " in pdflow().out
    assert pdflow().code == 0


def test_version_is_said(pdflow):
    from pdflow import __version__

    assert pdflow("--version").out == f"pdflow {__version__}\n"


@pytest.mark.parametrize("name", [command.NAME for command in COMMANDS])
def test_every_option_has_a_help_text_and_stands_in_the_documents(name):
    page = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    section = page.split(f"\n## pdflow {name}\n")[1].split("\n## ")[0]
    common = page.split("\n## Common options\n")[1].split("\n## ")[0]
    for parameter in get_command(app).commands[name].params:
        assert getattr(parameter, "help", None), parameter.name
        for option in parameter.opts:
            if option.startswith("-"):
                assert f"`{option}" in section + common, option


def test_each_loss_is_said_once(pdflow, broken_info, monkeypatch, scan):
    def lossy(*_: object) -> None:
        warnings.warn("scan.xyz cannot hold colours.", LossWarning, stacklevel=1)
        raise PdflowError("Enough.")

    monkeypatch.setattr(info, "_inspect", lossy)
    assert pdflow("info", scan).err == "warning: scan.xyz cannot hold colours.\nerror: Enough.\n"

    def twice(*_: object) -> None:
        for _ in range(2):
            warnings.warn("scan.xyz cannot hold colours.", LossWarning, stacklevel=1)
        raise PdflowError("Enough.")

    monkeypatch.setattr(info, "_inspect", twice)
    assert pdflow("info", scan).err.count("warning: ") == 1


def test_other_warnings_are_only_shown_for_debug(pdflow, monkeypatch, scan):
    def warns(*_: object) -> None:
        warnings.warn("look here", RuntimeWarning, stacklevel=1)
        raise PdflowError("Enough.")

    monkeypatch.setattr(info, "_inspect", warns)
    assert "look here" not in pdflow("info", scan).err
    assert "warning: RuntimeWarning" in pdflow("info", scan, "--debug").err


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["noise", "--help"]])
def test_help_loads_nothing_heavy(words):
    code = (
        "import sys; from pdflow.cli.main import main; main(sys.argv[1:]); "
        "heavy = {'numpy', 'scipy', 'numba', 'torch', 'rich'} & set(sys.modules); "
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_info_and_convert_load_no_torch(scan, tmp_path):
    code = (
        "import sys; from pdflow.cli.main import main; "
        f"main(['info', {str(scan)!r}]); main(['convert', {str(scan)!r}, {str(scan)!r}]); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_exit_codes_reach_the_shell(scan, tmp_path):
    def code_of(*words: str) -> int:
        return subprocess.run(
            [sys.executable, "-c", RUN, *words], capture_output=True, text=True
        ).returncode

    assert code_of("info", str(scan)) == 0
    assert code_of("info", str(tmp_path / "missing.ply")) == 2


def test_a_closed_pipe_is_quiet(scan):
    command = [sys.executable, "-c", RUN, "info", *[str(scan)] * 50, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_progress_is_shown_on_a_terminal_only(pdflow, scan, monkeypatch, tmp_path):
    assert "scan.ply" not in pdflow("convert", scan, tmp_path / "out.ply", "--json").err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    outcome = pdflow("convert", scan, tmp_path / "out.ply", "--json")
    assert "scan.ply" in outcome.err
    assert json.loads(outcome.out)["points"] == 200


def test_sigterm_stops_like_ctrl_c(pdflow, scan, monkeypatch):
    def terminate(paths):
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(info, "expand_inputs", terminate)
    outcome = pdflow("info", scan)
    assert outcome.code == 130
    assert outcome.err == "stopped: no unfinished file was left behind.\n"
    assert signal.getsignal(signal.SIGTERM) is before
