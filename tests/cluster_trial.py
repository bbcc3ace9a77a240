"""Runs on a cluster whose parts are killed, frozen and started again, beside the same runs here.

    python tests/cluster_trial.py                  the trial: minutes, two cores
    python tests/cluster_trial.py --overhead 1000  time of runs that train nothing, and memory

A scheduler and three workers are processes of their own with folders of their own, on this
machine's loopback address. As root and with iproute2, a worker has a network of its own, which one
cable joins to the scheduler's, and does not see the client's folder. A worker that ends is started
again, as a service manager does. Every few seconds one of them is killed, one is added, one is
frozen, or the cable of one is cut, both for longer than the scheduler waits; a worker whose cable
is cut works on. The scheduler is killed once and the client interrupted once. Printed are
the faults, how often a run was begun, and whether every record is there once and equal to that of
one process.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.training import ResultFile, RunOptions, TrainConfig, train_runs

ROOT = Path(__file__).resolve().parents[1]
#: the scheduler gives a silent worker up after so many seconds, and a frozen one sleeps longer
SILENT_S, FROZEN_S = 6, 12
#: names of this process's cables and their networks, which another trial's do not share
CABLE, NET = f"w{os.getpid()}x", f"10.{20 + os.getpid() % 200}"
#: what a worker runs before it starts: it notes each run that it begins, or trains nothing
NOTED = """
import os
from coefdyn.lab.training import there
from coefdyn.lab.training.loop import train_run

def noted(config, options):
    with open(os.environ["FAULTS_LOG"], "a") as log:
        log.write(config.key + "\\n")
    if "FAULTS_RECORD" in os.environ:
        return {"key": config.key, "config": config.to_dict()}
    return train_run(config, options)

there.train_run = noted
"""


class Parts:
    """Scheduler and workers as processes, each in a group of its own, and what happened to them."""

    def __init__(
        self, folder: Path, hidden: Path, *, count: int = 3, nothing: bool = False
    ) -> None:
        self.folder, self.hidden, self.count = folder, hidden, count
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{one.getsockname()[1]}"
        (folder / "noted.py").write_text(NOTED)
        self.log = folder / "begun.log"
        self.log.touch()
        ttl = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{SILENT_S}s"}
        self.env = {**os.environ, **ttl, "PYTHONPATH": str(ROOT), "FAULTS_LOG": str(self.log)}
        self.env |= {"FAULTS_RECORD": "1"} if nothing else {}
        self.env["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] = "false"
        self.faults: Counter[str] = Counter()
        self.workers: list[subprocess.Popen[bytes]] = []
        #: until when a process is frozen, or its cable is cut
        self.frozen: dict[int, float] = {}
        self.cut: dict[int, float] = {}
        self.cables: dict[int, int] = {}
        self.scheduler = self.start_scheduler()

    def _start(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        place = self.folder / name
        place.mkdir(exist_ok=True)
        with open(place / "log", "ab") as log:
            return subprocess.Popen(
                command, cwd=place, env=self.env, stdout=log, stderr=log, start_new_session=True
            )

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        module = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
        host, _, port = self.address.removeprefix("tcp://").partition(":")
        host = "0.0.0.0" if apart() else host
        return self._start("scheduler", [*module, "--host", host, "--port", port])

    def add(self) -> None:
        number = sum(one.name.startswith("worker") for one in self.folder.iterdir())
        address = self.address
        if apart():
            lay_cable(number)
            address = address.replace("127.0.0.1", f"{NET}.{number}.1")
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny"]
        command += [
            "--local-directory",
            ".",
            "--nthreads",
            "1",
            "--no-dashboard",
            "--preload",
            str(self.folder / "noted.py"),
        ]
        if apart():
            command += ["--host", f"{NET}.{number}.2"]
            hide = f"mount -t tmpfs none '{self.hidden}' && exec \"$@\""
            command = ["unshare", "--mount", "sh", "-c", hide, "sh", *command]
            command = ["ip", "netns", "exec", f"{CABLE}{number}", *command]
        started = self._start(f"worker-{number}", command)
        self.workers.append(started)
        self.cables[started.pid] = number

    def fault(self, draw: random.Random) -> None:
        """Kill, add or freeze a worker, or cut its cable."""
        awake = [one for one in self.workers if one.pid not in {**self.frozen, **self.cut}]
        kind = draw.choice(["killed", "killed", "added", "frozen", "cut off"])
        if kind == "added" and len(self.workers) < 5:
            self.add()
        elif kind == "cut off" and len(awake) > 1 and apart():
            one = draw.choice(awake)
            ip(f"link set {CABLE}{self.cables[one.pid]} down")
            self.cut[one.pid] = time.monotonic() + FROZEN_S
        elif kind == "frozen" and len(awake) > 1:
            one = draw.choice(awake)
            os.killpg(one.pid, signal.SIGSTOP)
            self.frozen[one.pid] = time.monotonic() + FROZEN_S
        elif awake:
            kind = "killed"
            os.killpg(draw.choice(awake).pid, signal.SIGKILL)
        self.faults[f"workers {kind}"] += 1

    def tend(self) -> None:
        """Wake who has slept enough, and start again who has ended."""
        for pid, until in list(self.frozen.items()):
            if time.monotonic() > until:
                os.killpg(pid, signal.SIGCONT)
                del self.frozen[pid]
        for pid, until in list(self.cut.items()):
            if time.monotonic() > until:
                ip(f"link set {CABLE}{self.cables[pid]} up")
                del self.cut[pid]
        self.workers = [one for one in self.workers if one.poll() is None]
        while len(self.workers) < self.count:
            self.add()

    def restart_scheduler(self) -> None:
        os.killpg(self.scheduler.pid, signal.SIGKILL)
        self.scheduler.wait()
        time.sleep(3)
        self.scheduler = self.start_scheduler()
        self.faults["scheduler killed and started again"] += 1

    def close(self) -> None:
        for one in [*self.workers, self.scheduler]:
            if one.poll() is None:
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()
        for number in self.cables.values() if apart() else ():
            ip(f"link delete {CABLE}{number}")
            ip(f"netns delete {CABLE}{number}")

    def memory(self) -> float:
        """Megabytes of the scheduler."""
        status = Path(f"/proc/{self.scheduler.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1000


def apart() -> bool:
    """Whether a worker can have a network and mounts of its own."""
    return os.geteuid() == 0 and all(map(shutil.which, ("unshare", "ip")))


def ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)


def lay_cable(number: int) -> None:
    """A network namespace and a pair of devices that joins it to this one."""
    name, far = f"{CABLE}{number}", f"far{number}"
    ip(f"netns add {name}")
    ip(f"link add {name} type veth peer name {far} netns {name}")
    ip(f"address add {NET}.{number}.1/24 dev {name}")
    ip(f"link set {name} up")
    ip(f"-n {name} address add {NET}.{number}.2/24 dev {far}")
    ip(f"-n {name} link set {far} up")


def numbers(record: dict) -> dict:
    """A record without what differs from hour to hour."""
    apart = ("wall_s", "timestamp", "experiment", "profile", "variant")
    return {name: one for name, one in record.items() if name not in apart}


def trial(runs: int, every: float, limit: float, seed: int) -> int:
    """The trial; 0 if all is as in one process."""
    experiment = get_experiment("principle-6")  # whose runs take some seconds
    each = len(experiment.plan("quick").with_seeds((0,)).runs())
    seeds = range(max(1, runs // each))
    planned = [run for _, run in experiment.plan("quick").with_seeds(seeds).runs()]
    draw, started = random.Random(seed), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder, client = Path(name), Path(name, "client")
        client.mkdir()
        parts = Parts(folder, client)
        command = [sys.executable, "-m", "coefdyn.lab", "run", experiment.id, "--profile", "quick"]
        command += ["--seeds", *map(str, seeds), "--cluster", parts.address, "--device", "cpu"]
        command += ["--out", str(client / "out"), "--checkpoints", str(client / "kept"), "--quiet"]
        file = ResultFile(client / "out" / experiment.id / "quick.jsonl")
        parts.tend()
        running = subprocess.Popen(command, env=parts.env, cwd=client)
        try:
            next_fault, interrupted, restarted = time.monotonic() + 2 * every, False, False
            while running.poll() is None and time.monotonic() - started < limit:
                time.sleep(0.5)
                parts.tend()
                done = len(file.keys())
                if done and time.monotonic() > next_fault:
                    next_fault = time.monotonic() + draw.uniform(0.5, 1.5) * every
                    parts.fault(draw)
                if not restarted and done >= len(planned) // 3:
                    restarted = True
                    parts.restart_scheduler()
                if not interrupted and done >= 2 * len(planned) // 3:
                    interrupted = True
                    running.send_signal(signal.SIGINT)
                    running.wait(timeout=60)
                    parts.faults["client interrupted and started again"] += 1
                    running = subprocess.Popen(command, env=parts.env, cwd=client)
        finally:
            if running.poll() is None:
                running.kill()
            parts.close()
        seconds, records = time.monotonic() - started, file.records()
        begun = Counter(parts.log.read_text().split())
    print(f"{seconds:.0f} s; no folder and no network shared: {apart()}")
    for name, count in parts.faults.items():
        print(f"{name:<42}{count:>5}")
    print(f"{'runs':<42}{len(planned):>5}\n{'records':<42}{len(records):>5}")
    print(f"{'runs begun more than once':<42}{sum(n > 1 for n in begun.values()):>5}")
    print(f"{'begun in all':<42}{begun.total():>5}")
    alone = train_runs(planned, options=RunOptions(device="cpu", workers=1, progress=False))
    there = {one["key"]: numbers(one) for one in records}
    equal = sum(there.get(one["key"]) == numbers(one) for one in alone)
    print(f"{'records equal to those of one process':<42}{equal:>5}")
    return int(not equal == len(records) == len(planned))


def overhead(runs: int) -> int:
    """Time of so many runs that train nothing, and the scheduler's memory before and after."""
    experiment = get_experiment("principle-6")
    first = experiment.plan(experiment.profiles[0]).runs()[0][1]
    many = [type(first)(task=first.task, model=first.model, train=TrainConfig(steps=1), seed=seed)
            for seed in range(runs)]  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        client = Path(name, "client")
        client.mkdir()
        parts = Parts(Path(name), client, nothing=True)
        try:
            parts.tend()
            options = RunOptions(device="cpu", cluster=parts.address, progress=False)
            train_runs(many[:6], options=options)
            before, started = parts.memory(), time.monotonic()
            found = train_runs(many, options=options)
            seconds = time.monotonic() - started
            print(f"{len(found)} runs of no length in {seconds:.1f} s on 3 workers: "
                  f"{1000 * seconds / runs:.1f} ms a run; scheduler {before:.0f} MB before, "
                  f"{parts.memory():.0f} MB after")  # fmt: skip
        finally:
            parts.close()
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs on a cluster whose parts fail.")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two faults")
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds until it gives up")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--overhead", type=int, metavar="RUNS", help="measure this instead")
    asked = parser.parse_args()
    if asked.overhead:
        return overhead(asked.overhead)
    return trial(asked.runs, asked.every, asked.limit, asked.seed)


if __name__ == "__main__":
    sys.exit(main())
