"""Put what the benchmarks printed into docs/speed.md.

    cd benchmarks
    python speed/bench_denoise.py --sizes 10000,100000,1000000 > measured/speed-cpu.txt
    python speed/bench_denoise.py --sizes 10000 --model NAME   > measured/speed-cpu-paper.txt
    python speed/bench_gpu_denoise.py                          > measured/speed-gpu.txt
    python speed/speed_page.py

NAME is `pdflow-paper`. A section of the page whose benchmark left no file stays as it is. Run the
benchmarks on an idle machine.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "benchmarks" / "measured"
PAGE = ROOT / "docs" / "speed.md"

STAGES = {
    "the network": ("TorchBackend.run", "CompiledBackend.run"),
    "noise estimate, before and after": ("survey.estimate_noise", "passes.estimate_remaining"),
    "outliers": ("survey.log_distances",),
    "search trees": ("neighbors.build_tree",),
    "cover with patches": ("patching.cover",),
    "tangential motion": ("denoise.limit_tangential_motion",),
    "blend": ("stitch points",),
}
"""Name on the page -> names in the output that are added up; some overlap."""


def main() -> None:
    """Fill all sections that have a file."""
    text = PAGE.read_text()
    for section, make in {"cpu": cpu, "gpu": gpu}.items():
        path = MEASURED / f"speed-{section}.txt"
        if path.exists():
            text = replaced(text, section, make(path.read_text()))
            print(f"{PAGE.name}: {section} from {path.name}")
        else:
            print(f"{PAGE.name}: {section} stays, as there is no {path.name}")
    PAGE.write_text(text)


def replaced(text: str, section: str, content: str) -> str:
    """A page with another content between the marks of a section.

    >>> replaced("a <!-- cpu -->\\nold\\n<!-- end of cpu --> b", "cpu", "new")
    'a <!-- cpu -->\\nnew\\n<!-- end of cpu --> b'
    """
    first, last = f"<!-- {section} -->\n", f"\n<!-- end of {section} -->"
    before, _, rest = text.partition(first)
    return before + first + content + last + rest.partition(last)[2]


def cpu(output: str) -> str:
    """The section on CPUs from what bench_denoise.py printed."""
    rows = []
    paper = MEASURED / "speed-cpu-paper.txt"
    if paper.exists():
        rows.append(("the paper's network (`pdflow-paper`)", *one_pass(paper.read_text())))
    rows.append((f"ours (`{model(output)}`)", *one_pass(output)))
    lines = ["| 10,000 points, mode `resample`, one pass | seconds | share of the yardstick |"]
    lines += ["|---|---|---|", *(f"| {n} | {s} | {share} |" for n, s, share in rows)]
    lines += ["", "| mode `points`, no options | seconds | passes | memory at most, GiB |"]
    lines += ["|---|---|---|---|"]
    for points, seconds, passes, peak in re.findall(
        r"^ +(\d+) +([\d.]+) +(\d+) +([\d.]+)$", output, re.M
    ):
        lines.append(f"| {int(points):,} points | {seconds} | {passes} | {peak} |")
    if found := re.search(r"grow with points to the ([\d.]+)", output):
        lines += ["", f"Seconds per pass grow with the number of points to the {found[1]}."]
    return "\n".join([*lines, "", made(output, "bench_denoise.py")])


def gpu(output: str) -> str:
    """The section on GPUs from what bench_gpu_denoise.py printed."""
    runs = re.findall(r"^(\d+) points, one pass, (.+): ([\d.]+) s\n((?:    .*\n?)*)", output, re.M)
    points, _, whole, listed = runs[0]
    spent = {n: float(s) for n, s in re.findall(r"^ +(\S.*?) +([\d.]+) s$", listed, re.M)}
    lines = [f"| stage of {int(points):,} points, mode `points`, one pass | seconds |", "|---|---|"]
    lines.append(f"| the whole run, from array to array | {float(whole):.2f} |")
    stages = {name: sum(spent.get(part, 0.0) for part in parts) for name, parts in STAGES.items()}
    for name, seconds in sorted(stages.items(), key=lambda stage: -stage[1]):
        lines.append(f"| {name} | {seconds:.2f} |")
    for _, eps, seconds, _ in runs[1:]:
        lines += ["", f"With {eps} by a seed, the run takes {float(seconds):.2f} s."]
    return "\n".join([*lines, "", made(output, "bench_gpu_denoise.py")])


def one_pass(output: str) -> tuple[str, str]:
    """Seconds of a resampling pass, and the share of the yardstick."""
    found = re.search(r"^10000 points, resample, .*: ([\d.]+) s, ([\d.]+) x$", output, re.M)
    assert found, "this is not the output of bench_denoise.py"
    return f"{float(found[1]):.2f}", found[2]


def model(output: str) -> str:
    """The name of the network."""
    found = re.search(r"model (\S+)$", output, re.M)
    return found[1] if found else "pdflow"


def made(output: str, script: str) -> str:
    """How the figures were made: script, commit, seed and machine."""
    machine, versions = output.strip().splitlines()[:2]
    return f"`benchmarks/speed/{script}`: {machine.strip()}; {versions.strip()}."


if __name__ == "__main__":
    main()
