"""Workers of a dask scheduler, on any machines: Slurm, Kubernetes, rented ones, or this one.

dask moves, repeats and watches; this file says what a run is to it. A run is a task without side
effects, by the name of its key: it returns a record, which the client alone writes, or a checkpoint
to go on from. So a run may be trained twice, and its record is there once.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.loop import TrainOptions
from coefdyn.lab.training.results import Record, config_key
from coefdyn.lab.training.there import (
    SHARED,
    STEPS,
    admit,
    facts,
    own_classes,
    read_bytes,
    train_there,
)
from coefdyn.lab.training.workers import WorkerFailed, Workers

__all__ = ["ClusterWorkers"]

#: seconds after which a run returns its checkpoint, where no folder is shared
RETURN_S = 300.0
#: seconds between two looks at the cluster
LOOK_S = 0.5
#: seconds in which a scheduler has to answer, and a worker to hand over a result
ANSWER_S = 10.0
#: seconds for which a scheduler that went away is waited for
AWAY_S = 600.0


class ClusterWorkers(Workers):
    """Workers of a dask scheduler that have the code, torch and Python of this process.

    Each trains one run at a time: a worker that is fit is given one unit of a resource that every
    run takes. A run on a GPU takes a share of the resource "GPU" besides, with which its worker was
    started (``dask worker --resources "GPU=1"``).

    Args:
        cluster: an address, or a cluster of dask.
        options: of every run; the device is replaced.
        checkpoints: folder that keeps unfinished runs' checkpoints; None for none after the end.
        device: "cpu" or "cuda"; None for "cuda" if a worker offers a GPU, else "cpu".
        share: part of a GPU that a run takes.

    Raises:
        ImportError: where ``distributed`` is absent.
        OSError: where no scheduler answers.
        ValueError: where no worker is fit, naming both sides; or for an address beyond this machine
            without TLS, unless dask's ``distributed.comm.require-encryption`` is false.
    """

    def __init__(
        self,
        cluster: Any,
        options: TrainOptions,
        checkpoints: Path | None,
        *,
        device: str | None = None,
        share: float = 1.0,
    ) -> None:
        super().__init__()
        self._dask = _distributed()
        _check_encryption(cluster)
        self._cluster, self._share = cluster, share
        self._own_folder = TemporaryDirectory()
        self._folder = checkpoints or Path(self._own_folder.name)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._mark = self._folder / f".seen-{uuid4().hex}"
        self._mark.touch()
        self._here = facts()
        self._resource = "coefdyn " + config_key({name: self._here[name] for name in SHARED})
        self._flying: dict[str, tuple[RunConfig, Any]] = {}
        self._turns: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._fit: list[str] = []
        # A worker whose network is cut does not answer for long, and no other waits for it.
        self._asked: dict[str, Future[Any]] = {}
        self._unfit: dict[str, str] = {}
        self._unheld: set[str] = set()
        self._trouble: Exception | None = None
        self._seen, self._closing = time.monotonic(), threading.Event()
        self._client = self._connect()
        try:
            offered = [one["resources"] for one in self._workers().values()]
            device = device or ("cuda" if any("GPU" in one for one in offered) else "cpu")
            self._options = replace(options, device=device)
            self._look(patience=ANSWER_S)
        except BaseException:
            self.close()
            raise
        self._watching = threading.Thread(target=self._watch, daemon=True)
        self._watching.start()

    def free(self) -> int:
        if self._trouble is not None:
            raise self._trouble
        return len(self._fit) - len(self._flying)

    def _start(self, config: RunConfig) -> Any:
        own, state = own_classes(config), read_bytes(self._folder / f"{config.key}.safetensors")
        turn = self._turns.setdefault(config.key, 0)
        options = replace(self._options, weights=None)
        takes = {self._resource: 1.0}
        if options.device != "cpu":
            takes["GPU"] = self._share
        future: Any = Future()
        try:
            future = self._client.submit(
                train_there,
                config.to_dict(),
                options,
                state,
                own=own,
                keep=self._options.weights is not None,
                mark=self._mark.absolute(),
                return_s=RETURN_S,
                key=f"{config.key}-{config_key(vars(options))}-{turn}",
                resources=takes,
            )
        except Exception as error:  # an answer that never came, or a scheduler that just went
            if self._client.status == "running" and not isinstance(error, OSError):
                raise
            future.cancel()
        self._flying[config.key] = config, future
        return future

    def result(self, config: RunConfig, future: Any) -> Record | None:
        self._flying.pop(config.key)
        self._steps.pop(config.key, None)
        if _client_of(future) is not self._client:
            return None
        try:
            record, data = future.result(timeout=ANSWER_S)
        except (CancelledError, OSError, TimeoutError):  # the scheduler or the worker is gone
            return None
        except WorkerFailed:
            self._turns[config.key] += 1
            raise
        except Exception as error:  # such as KilledWorker, or code that cannot be loaded there
            self._turns[config.key] += 1
            raise WorkerFailed("".join(traceback.format_exception(error))) from None
        state = self._folder / f"{config.key}.safetensors"
        if record is None:
            self._turns[config.key] += 1
            _write(state, data)
            return None
        state.unlink(missing_ok=True)
        if self._options.weights is not None:
            _write(self._options.weights / state.name, data)
        return record

    def steps(self) -> dict[str, int]:
        return {key: self._steps[key] for key in list(self._steps) if key in self._flying}

    def close(self) -> None:
        self._closing.set()
        with suppress(Exception):  # a scheduler that is gone has forgotten these runs
            if self._client.status == "running":
                self._client.cancel([future for _, future in self._flying.values()])
        with suppress(Exception):
            self._client.close(timeout=1)
        self._mark.unlink(missing_ok=True)
        self._own_folder.cleanup()

    def _connect(self) -> Any:
        # The note of the bar tells of a scheduler that went away, and dask's traceback is not news.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        client = self._dask.Client(
            self._cluster, timeout=ANSWER_S, set_as_default=False, name="coefdyn"
        )
        client.subscribe_topic(STEPS, self._hear)
        return client

    def _hear(self, event: tuple[float, dict[str, Any]]) -> None:
        self._steps[event[1]["run"]] = event[1]["done"]

    def _workers(self) -> dict[str, Any]:
        return self._client.scheduler_info(n_workers=-1)["workers"]

    def _watch(self) -> None:
        """Keep the connection and the list of fit workers, until the end."""
        while not self._closing.wait(LOOK_S):
            try:
                if self._client.status != "running":
                    self._fit = []
                    with suppress(Exception):
                        self._client.close(timeout=1)
                    self._client = self._connect()
                self._look()
                self._seen = time.monotonic()
            except ValueError as unfit:
                self._trouble = unfit
            except Exception as error:
                self._fit, self.note = [], "the scheduler does not answer"
                if time.monotonic() - self._seen > AWAY_S:
                    self._trouble = OSError(f"the scheduler at {self._cluster} is gone: {error}")

    def _look(self, patience: float = LOOK_S) -> None:
        """Give up what an earlier connection started, and make workers fit that came since."""
        for config, future in list(self._flying.values()):
            if _client_of(future) is not self._client:
                self.ended.put((config, future))
        workers = self._workers()
        self._unfit = {one: why for one, why in self._unfit.items() if one in workers}
        fit = [one for one, told in workers.items() if self._resource in told["resources"]]
        new = [one for one in workers if one not in fit and one not in self._unfit]
        for address in new:
            if address not in self._asked:
                self._asked[address] = Future()
                threading.Thread(target=self._ask, args=(address,), daemon=True).start()
        wait(self._asked.values(), timeout=patience)
        for address in [address for address, asked in self._asked.items() if asked.done()]:
            found = self._asked.pop(address).result()
            if isinstance(found, OSError) or address not in new:  # it went again
                continue
            lacks = self._lacks(found)
            if lacks:
                self._unfit[address] = lacks
            else:
                fit.append(address)
        if self._options.device != "cpu":
            for address in fit:
                if workers[address]["resources"].get("GPU", 0) < self._share:
                    self._unfit[address] = f'it was started without --resources "GPU={self._share}"'
        self._fit = [address for address in fit if address not in self._unfit]
        self.note = "" if self._fit else "waiting for workers"
        if workers and len(self._unfit) == len(workers) and not self._turns:
            each = "\n".join(f"{address}: {why}" for address, why in self._unfit.items())
            raise ValueError(f"no worker of the cluster can train these runs.\n{each}")
        if self._fit and self._flying:
            self._start_anew()

    def _start_anew(self) -> None:
        """Take back the runs that no worker held in two looks, although there are fit ones.

        Their worker went while no other was fit. dask offers them to each worker that comes, which
        is before it is made fit, and not again.
        """
        held = {key for keys in self._client.processing().values() for key in keys}
        before, self._unheld = self._unheld, set()
        for key, (_, future) in list(self._flying.items()):
            if future.done() or future.key in held:
                continue
            if future.key not in before:
                self._unheld.add(future.key)
            else:
                self._turns[key] += 1
                future.cancel()

    def _ask(self, address: str) -> None:
        """A worker's facts, or the error that came instead."""
        try:
            found = self._client.run(
                admit, self._here, self._resource, workers=[address], on_error="return"
            )[address]
        except Exception as error:
            found = error if isinstance(error, OSError) else OSError(str(error))
        self._asked[address].set_result(found)

    def _lacks(self, found: Any) -> str:
        """What sets a worker apart from this process; empty for nothing."""
        if not isinstance(found, dict):
            return f"it cannot answer: {type(found).__name__}: {found}"
        return "; ".join(
            f"{name} {_said(found, name)} there, {_said(self._here, name)} here"
            for name in SHARED
            if found[name] != self._here[name]
        )


def _said(found: dict[str, str], name: str) -> str:
    return f"{found[name]} ({found['commit']})" if name == "sources" else found[name]


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise ImportError(
            f"a cluster needs the package distributed, which cannot be imported ({error}); "
            "install it with `pip install 'coefdyn[cluster]'`, or train without `cluster`."
        ) from error
    return distributed


def _check_encryption(cluster: Any) -> None:
    """Raise for an address beyond this machine that is not encrypted, unless dask is told so."""
    import dask.config
    from distributed.comm import get_address_host, parse_address

    told = dask.config.get("distributed.comm.require-encryption", None)
    if not isinstance(cluster, str) or told is False:
        return
    scheme, host = parse_address(cluster)[0], get_address_host(cluster)
    if scheme == "tcp" and host not in ("localhost", "::1") and not host.startswith("127."):
        raise ValueError(
            f"{cluster} is beyond this machine and not encrypted; a scheduler runs whatever it is "
            "sent. Start it with TLS and use tls://, or in a closed network set "
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=false."
        )


def _client_of(future: Any) -> Any:
    """The connection that a future belongs to."""
    return getattr(future, "client", None)


def _write(path: Path, data: bytes) -> None:
    if data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
