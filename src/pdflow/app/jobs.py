"""One job at a time: a queue in front of the worker process."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdflow.app.refusal import Refusal
from pdflow.app.shelf import HeldCloud

MOST_WAITING = 100
"""Jobs in the queue; further ones are refused."""

_LAST_WORDS = 2.0  # seconds from the end of a worker's answers to its own end

Answer = dict[str, Any]


class WorkerDiedError(Exception):
    """The worker ended before its task did."""


class Worker:
    """The process that does tasks; started when it is needed, and again after it ended."""

    def __init__(self) -> None:
        self._process: Process | None = None

    async def run(self, task: Answer, progress: Callable[[str, float], None]) -> Answer:
        """Send a task and return its last answer."""
        try:
            process = self._process = self._process or await self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(task).encode() + b"\n")
            await process.stdin.drain()
            while line := await process.stdout.readline():
                answer = json.loads(line)
                if "step" not in answer:
                    return dict(answer)
                progress(str(answer["step"]), float(answer["share"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            await self.end()  # a worker that does not speak our language is no worker
            raise WorkerDiedError("") from error
        with suppress(asyncio.TimeoutError):  # it ended by itself: let it say how
            await asyncio.wait_for(process.wait(), _LAST_WORDS)
        raise WorkerDiedError(_how(await self.end()))

    async def end(self) -> int:
        """Kill the process, wait until it is gone, and return how it ended."""
        process, self._process = self._process, None
        if process is None:
            return 0
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
        return await process.wait()

    async def _start(self) -> Process:
        # A session of its own, so that Ctrl-C in the terminal reaches the server alone.
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pdflow.app.worker"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            start_new_session=True,
        )


def _how(code: int) -> str:
    return f" (signal {-code})" if code < 0 else f" (exit code {code})"


@dataclass
class Job:
    """A task for a cloud; `folder` is where its files go."""

    cloud: HeldCloud
    task: Answer
    folder: Path
    cancelled: bool = False


class Jobs:
    """The queue. `serve` runs for as long as the app does."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._waiting: list[Job] = []
        self._running: Job | None = None
        self._wake = asyncio.Event()

    def submit(self, cloud: HeldCloud, kind: str, options: Answer | None = None) -> None:
        """Put a task at the end of the queue."""
        if cloud.busy and cloud.state != "receiving":
            raise Refusal(409, f"{cloud.name} is being worked on: wait or cancel first.")
        if len(self._waiting) >= MOST_WAITING:
            raise Refusal(503, "Too many jobs are waiting: try again later.")
        folder = cloud.new_folder()
        task = {
            "kind": kind,
            "source": str(cloud.source),
            "name": cloud.name,
            "result_name": cloud.result_name,
            "drop": cloud.drop,
            "folder": str(folder),
            "options": options or {},
        }
        cloud.state, cloud.step, cloud.share, cloud.error = "waiting", "waiting", 0.0, ""
        self._waiting.append(Job(cloud, task, folder))
        self._wake.set()

    def ahead(self, cloud: HeldCloud) -> int:
        """How many jobs come before that of a cloud."""
        before = [job.cloud for job in self._waiting]
        return before.index(cloud) + (self._running is not None) if cloud in before else 0

    async def cancel(self, cloud: HeldCloud) -> None:
        """Take a cloud's job out of the queue, or end the worker that does it."""
        for job in [job for job in self._waiting if job.cloud is cloud]:
            self._waiting.remove(job)
            self._give_up(job, "Cancelled.")
        running = self._running
        if running is not None and running.cloud is cloud:
            running.cancelled = True
            await self._worker.end()
            while self._running is running:
                await asyncio.sleep(0.01)

    async def serve(self) -> None:
        """Do jobs, one after the other, until cancelled."""
        try:
            while True:
                while not self._waiting:
                    self._wake.clear()
                    await self._wake.wait()
                self._running = self._waiting.pop(0)
                try:
                    await self._do(self._running)
                finally:
                    self._running = None
        finally:
            await self._worker.end()

    async def _do(self, job: Job) -> None:
        cloud = job.cloud
        cloud.state = "working"

        def progress(step: str, share: float) -> None:
            cloud.step, cloud.share = step, share

        try:
            answer = await self._worker.run(job.task, progress)
        except WorkerDiedError as error:
            crashed = (
                f"{cloud.name}: the process that worked on it ended unexpectedly{error}: the file "
                "may be damaged, or larger than the memory."
            )
            self._give_up(job, "Cancelled." if job.cancelled else crashed)
            return
        if "done" not in answer:
            self._give_up(job, str(answer.get("error")))
            return
        if job.task["kind"] == "open":
            cloud.facts = answer["done"]
        else:
            cloud.result = answer["done"]
        cloud.warnings = answer.get("warnings", [])
        before, cloud.shown = cloud.shown, job.folder
        cloud.version += 1
        cloud.state = "ready"
        if before is not None:
            shutil.rmtree(before, ignore_errors=True)

    def _give_up(self, job: Job, sentence: str) -> None:
        """Leave the cloud as it was before the job, with a sentence about why."""
        shutil.rmtree(job.folder, ignore_errors=True)
        job.cloud.state = "failed" if job.cloud.facts is None else "ready"
        job.cloud.error = sentence
        if job.cloud.state == "failed":
            job.cloud.source.unlink(missing_ok=True)
