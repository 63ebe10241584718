"""Runs that stop and go on, methods that fail or are missing, plug-ins, and the report."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

from pdflow.bench import methods, runner
from pdflow.bench.cases import Case
from pdflow.bench.layout import build_grid
from pdflow.bench.methods import Method, Output, choose_methods
from pdflow.bench.peers import PEERS, Peer
from pdflow.bench.published import published_shapes
from pdflow.bench.records import Key, Record, Run, Store
from pdflow.bench.tables import find_table
from pdflow.bench.writers import markdown_text
from pdflow.errors import PdflowError
from pdflow.train.loop import Trainer

ONE_CELL = ("--points", "10000", "--levels", "0.02")


@pytest.fixture
def counted(monkeypatch):
    """Calls of a method `counted` that is known beside the others."""
    calls: list[int] = []
    settings = {"weights": "old"}

    def denoise(_, case):
        calls.append(len(case.noisy))
        return Output(case.noisy * 0.99)

    def known():
        return [
            *methods.references(),
            Method("counted", "ours", lambda: None, denoise, dict(settings)),
        ]

    monkeypatch.setattr(methods, "all_methods", known)
    return calls, settings


def test_a_second_run_measures_nothing_again(bench, score_data, tmp_path, counted):
    calls, settings = counted
    words = ("puset", "--data", score_data, "-o", tmp_path, "--methods", "counted", *ONE_CELL)
    assert bench(*words).code == 0
    assert len(calls) == 3  # a warm-up and two shapes
    first = (tmp_path / "puset.md").read_text()
    assert bench(*words).code == 0
    assert len(calls) == 3
    assert (tmp_path / "puset.md").read_text() == first
    settings["weights"] = "new"
    assert bench(*words).code == 0
    assert len(calls) == 6  # other weights are another result


def test_a_stopped_run_goes_on(bench, score_data, tmp_path, counted, monkeypatch):
    calls, _ = counted
    words = ("puset", "--data", score_data, "-o", tmp_path, "--methods", "counted", *ONE_CELL)
    measured = runner._measured

    def stop_at_second(job, *others):
        if job.shape == "pill":
            raise KeyboardInterrupt
        return measured(job, *others)

    monkeypatch.setattr(runner, "_measured", stop_at_second)
    assert bench(*words).code == 130
    monkeypatch.setattr(runner, "_measured", measured)
    path = tmp_path / "puset.jsonl"
    with path.open("a") as file:
        file.write('{"block": "10K", "ce')  # killed while writing
    calls.clear()
    done = bench(*words)
    assert done.code == 0, done.err
    assert len(calls) == 2  # a warm-up and the shape that was missing
    assert len(Store.open(path).records) == 2


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "puset.jsonl"
    path.write_text("nonsense\n{}\n")
    with pytest.raises(PdflowError, match=r"puset.jsonl, line 1 is not a result"):
        Store.open(path)


def test_the_newest_weights_of_a_method_count(tmp_path):
    store = Store(tmp_path / "puset.jsonl")
    run = Run("pdflow bench puset", "abc", "a machine", 0.5, 0)
    store.start(run)
    for settings, seed, cd in (("old", 0, 4e-4), ("new", 1, 3e-4), ("new", 0, 2e-4)):
        key = Key("10K", "1 %", "egg", "pdflow", settings, seed)
        facts = {"weights": settings}
        store.add(Record(key, "ours", {"cd": cd}, 1.0, 1.0, "1x1", facts, run.key))
    grid = build_grid("puset", Store.open(store.path))
    row = grid.row("pdflow")
    assert row is not None
    assert row.values["10K", "1 %", "cd"] == pytest.approx(2.0)
    assert row.facts == {"weights": "new"}
    assert grid.runs == (run,)


def test_a_method_that_fails_is_recorded_and_the_others_go_on(
    bench, score_data, tmp_path, monkeypatch
):
    def diverge(_, case):
        return Output(np.full_like(case.noisy, np.nan))

    monkeypatch.setattr(
        methods,
        "all_methods",
        lambda: [Method("diverged", "ours", lambda: None, diverge), *methods.references()],
    )
    done = bench("puset", "--data", score_data, "-o", tmp_path, *ONE_CELL)
    assert done.code == 2
    assert "error: 2 results failed, the first of them diverged on egg (" in done.err
    assert "| diverged (0 of 2 shapes) | - | - | - | - |" in done.out
    assert "failed:" in done.out
    assert "| noisy (2 shapes, not the 20 published ones) |" in done.out
    assert bench("puset", "--data", score_data, "-o", tmp_path, *ONE_CELL).code == 2


def test_an_error_in_a_file_of_ones_own_fails_that_method_only(bench, score_data, tmp_path):
    for name, code in {"late": "return points[:, :2]", "early": "1 / 0"}.items():
        lines = f"def load():\n    {'1 / 0' if name == 'early' else 'pass'}\n"
        (tmp_path / f"{name}.py").write_text(f"{lines}def denoise(state, points):\n    {code}\n")
    words = ("puset", "--data", score_data, "-o", tmp_path / "out", *ONE_CELL, "--shapes", "egg")
    named = f"noisy,{tmp_path / 'early.py'},{tmp_path / 'late.py'}"
    done = bench(*words, "--methods", named)
    assert done.code == 2
    assert "load failed (ZeroDivisionError: division by zero)" in done.err
    assert "denoise must return finite points (M, 3)" in done.out
    assert "| noisy (1 shape, not" in done.out


def test_shapes_are_chosen_by_name_or_number(bench, score_data, tmp_path):
    words = ("puset", "--data", score_data, *ONE_CELL, "--methods", "noisy")
    for number, (wanted, found) in enumerate({"pill": ["pill"], "1": ["egg"]}.items()):
        folder = tmp_path / str(number)
        assert bench(*words, "--shapes", wanted, "-o", folder).code == 0
        records = Store.open(folder / "puset.jsonl").records
        assert [key.shape for key in records] == found
    for wanted, sentence in {
        "elk": "There is no shape 'elk': choose from egg",
        "0": "is 0",
    }.items():
        done = bench(*words, "--shapes", wanted, "-o", tmp_path / "none")
        assert done.code == 2
        assert sentence in done.err


def test_means_over_the_published_shapes_carry_no_mark(tmp_path):
    store = Store(tmp_path / "puset.jsonl")
    run = Run("pdflow bench puset", "abc", "a machine", 0.5, 0)
    store.start(run)
    for method, shapes in {"all": sorted(published_shapes("puset")), "some": ["elk"]}.items():
        for shape in shapes:
            key = Key("10K", "1 %", shape, method, "x", 0)
            store.add(Record(key, "ours", {"cd": 1e-4}, 1.0, 1.0, "", {}, run.key))
    text = markdown_text(find_table("puset"), build_grid("puset", store))
    assert "| all |" in text
    assert "| some (1 of the 20 published shapes) |" in text


def test_missing_peers_are_named_and_left_out(bench, score_data, tmp_path, monkeypatch):
    monkeypatch.setattr(Peer, "missing", lambda peer: f"{peer.needs} is not there")
    done = bench("puset", "--data", score_data, "-o", tmp_path, "--shapes", "1", *ONE_CELL)
    assert done.code == 0, done.err
    for peer in PEERS:
        assert f"{peer.name} is not installed: {peer.needs} is not there" in done.err
        assert f"| {peer.name} |" not in done.out
    asked = bench("puset", "--data", score_data, "-o", tmp_path, "--methods", "cgal-jet")
    assert asked.code == 2
    assert asked.err == "error: cgal-jet is not installed: CGAL is not there.\n"


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_installed_peers_smooth_a_noisy_plane(peer):
    if peer.missing():
        pytest.skip(peer.missing())
    (method,) = choose_methods([peer.name])
    random = np.random.default_rng(0)
    plane = np.column_stack([random.random((3000, 2)), np.zeros(3000)])
    noisy = plane + 0.02 * random.standard_normal(plane.shape)
    done = method.denoise(method.load(), Case(noisy, plane))
    assert np.isfinite(done.points).all()
    assert np.abs(done.points[:, 2]).mean() < np.abs(noisy[:, 2]).mean()


def test_a_python_file_is_a_method(bench, score_data, tmp_path):
    file = tmp_path / "shrink.py"
    file.write_text(
        "def load():\n    return 0.5\n\ndef denoise(state, points):\n    return state * points\n"
    )
    words = ("puset", "--data", score_data, "-o", tmp_path, *ONE_CELL)
    done = bench(*words, "--methods", f"noisy,{file}")
    assert done.code == 0, done.err
    assert "| shrink (2 shapes, not the 20 published ones) |" in done.out
    file.write_text("def load():\n    return 0.5\n")
    assert "has no function denoise" in bench(*words, "--methods", file).err
    file.write_text("import no_such_module\n")
    assert "cannot be run (ModuleNotFoundError" in bench(*words, "--methods", file).err


def test_unknown_names_are_refused_with_the_known_ones(bench, score_data, tmp_path):
    words = ("--data", score_data, "-o", tmp_path)
    assert "There is no table 'table9': choose one of puset" in bench("table9", *words).err
    assert (
        "Unknown method 'magic': choose from pdflow"
        in bench("puset", *words, "--methods", "magic").err
    )
    assert (
        "filters has no row 'magic': choose from FBM"
        in bench("filters", *words, "--methods", "magic").err
    )
    empty = ("--data", tmp_path, "-o", tmp_path)
    assert "holds no folder 10000_poisson" in bench("puset", *empty).err
    assert "holds no OFF files" in bench("lidar", *empty).err
    assert "holds no clean clouds" in bench("dmrset", "--data", tmp_path, "-o", tmp_path).err


def test_seconds_of_a_gpu_are_not_compared(tmp_path):
    store = Store.open(tmp_path / "puset.jsonl")
    for method, facts in (("ours", {"device": "cuda"}), ("peer", {})):
        key = Key("10K", "1 %", "egg", method, "", 0)
        store.add(Record(key, "ours", {"cd": 1e-4}, 1.0, 2.0, "", facts, "run"))
    grid = build_grid("puset", store)
    assert grid.row("ours").seconds == {}
    assert grid.row("peer").seconds == {("10K", "1 %"): 2.0}


def test_each_ablation_is_trained_with_each_seed_and_once(bench, score_data, tmp_path):
    words = ("--data", score_data, "-o", tmp_path, "--methods", "D_m = 8", "--steps", "1")
    assert bench("masked-dims", *words, "--train-seeds", "2").code == 0
    first, second = sorted((tmp_path / "models").iterdir())
    assert first.read_bytes() != second.read_bytes()
    written = [path.stat().st_mtime_ns for path in (first, second)]
    done = bench("masked-dims", *words, "--train-seeds", "2")
    assert [path.stat().st_mtime_ns for path in (first, second)] == written
    assert "D_m = 8 (small, 1 steps)" in done.out
    assert "D_m = 8 (small, 1 steps, seed 1)" in done.out


def test_a_table_that_was_stopped_twice_gives_the_same_rows(
    bench, score_data, tmp_path, monkeypatch
):
    words = ("filters", "--data", score_data, "--methods", "FBM,LCC", "--steps", "6", *ONE_CELL)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert bench(*words, "-o", whole).code == 0
    calls = {"step": 0, "measured": 0}

    def ctrl_c():
        raise KeyboardInterrupt  # a signal may be ignored, as in a job of a script

    def interrupted(function, name, at, stop):
        def call(*arguments):
            calls[name] += 1
            if calls[name] == at:
                stop()
            return function(*arguments)

        return call

    # A training handles the signal itself, and ends after its step.
    signalled = interrupted(Trainer.step, "step", 9, lambda: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(Trainer, "step", signalled)
    monkeypatch.setattr(runner, "_measured", interrupted(runner._measured, "measured", 3, ctrl_c))
    assert bench(*words, "-o", parts).code == 130  # in the third step of the second network
    assert calls == {"step": 9, "measured": 0}
    assert len(list((parts / "models").glob("*.checkpoint"))) == 1
    assert bench(*words, "-o", parts).code == 130  # in the third of six results
    assert calls == {"step": 12, "measured": 3}
    assert bench(*words, "-o", parts).code == 0
    assert not list((parts / "models").glob("*.checkpoint"))
    rows = [
        {key: record.values for key, record in Store.open(folder / "filters.jsonl").records.items()}
        for folder in (whole, parts)
    ]
    assert rows[0] == rows[1]  # keys hold the digest of the weights: they are the same bits
    assert len(rows[0]) == 6


def test_the_report_holds_all_tables_that_were_made(bench, score_data, tmp_path):
    page = tmp_path / "results.md"
    assert "holds no results" in bench("report", "-o", tmp_path, "--docs", page).err
    words = ("--data", score_data, "-o", tmp_path, "--methods")
    assert bench("puset", *words, "pdflow,noisy", *ONE_CELL).code == 0
    assert bench("masked-dims", *words, "D_m = 0", "--steps", "1").code == 0
    (tmp_path / "latent.json").write_text('[{"code": "[z_p, z_n]", "moved": 1e-7, "common": 0.1}]')
    (tmp_path / "latent.png").touch()
    (tmp_path / "puset-worst.png").touch()
    assert bench("report", "-o", tmp_path, "--docs", page).code == 0
    text = page.read_text()
    assert "| [z_p, z_n] | 1e-07 | 0.10 |" in text
    assert "in the same order](latent.png)" in text
    assert "compares worst](puset-worst.png)" in text
    assert "## PUSet with Gaussian noise" in text
    assert "the network returns its input: **holds**" in text
    assert "The inverse flow beats an MLP as decoder: **not measured yet**" in text
    assert "| cgal-jet |" in text
    assert "uniformity, architecture" in text.split("## Not measured yet")[1]
    assert f"{score_data}" not in text


def test_records_keep_what_is_needed_to_repeat_them(bench, score_data, tmp_path):
    words = ("--data", score_data, "-o", tmp_path, "--methods", "pdflow", "--shapes", "1")
    assert bench("puset", *words, *ONE_CELL).code == 0
    run, record = map(json.loads, (tmp_path / "puset.jsonl").read_text().splitlines())
    assert run["command"] == (
        "pdflow bench puset --data DIR --methods pdflow --points 10000 --levels 0.02 --shapes 1"
    )
    assert {"commit", "machine", "seed", "load"} < set(run)
    assert len(record["facts"]["weights"]) == 12
    assert record["remark"] == "2x1"
    assert record["cpu"] > 0
