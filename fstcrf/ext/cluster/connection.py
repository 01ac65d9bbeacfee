"""Schedulers of Dask: reached within seconds or not, their workers checked before they are used.

Training and tagging both connect through this module, so that their error messages agree.
"""

from __future__ import annotations

import logging
import pkgutil
from typing import TYPE_CHECKING, Any

from fstcrf.errors import ClusterError, OptionError
from fstcrf.lazy import optional

if TYPE_CHECKING:
    from distributed import Client

ANSWER = 5.0
"""Seconds within which a scheduler must answer; workers have twice this time."""
_NAME = "fstcrf:__version__"
VERSION = str(pkgutil.resolve_name(_NAME))
"""The version of fstcrf here, which all workers must have."""
_ADVICE = "workers of Dask need dask and distributed: pip install 'fstcrf[dask]'"


def distributed_package() -> Any:
    """Return `distributed`, or raise MissingDependencyError."""
    return optional("distributed", _ADVICE)


def connected(address: str, *, workers: int = 1, seconds: float = ANSWER) -> Client:
    """Return a client of the scheduler at an address, whose workers have this version of fstcrf.

    Afterwards, Dask logs nothing in this process: errors are raised, each as one line.

    Parameters
    ----------
    address : str
        Such as ``"tcp://10.0.0.1:8786"``.
    workers : int
        How many must be there.
    seconds : float
        Time within which the scheduler must answer; workers have twice this time.

    Raises
    ------
    OptionError
        No address.
    ClusterError
        No answer, too few workers, or workers with another version.
    MissingDependencyError
        Dask is not installed.
    """
    distributed = distributed_package()
    _quiet()
    if not address.rpartition(":")[2].isdigit():
        raise OptionError(
            f"{address!r} is not the address of a scheduler, expected for example "
            "tcp://10.0.0.1:8786"
        )
    try:
        client: Client = distributed.Client(address, timeout=seconds, set_as_default=False)
    except OSError:
        raise ClusterError(
            f"no scheduler of Dask answers at {address} within {seconds:g} s: start one by "
            "'dask scheduler'"
        ) from None
    except ValueError as error:
        raise OptionError(f"{address!r} is not the address of a scheduler: {error}") from None
    try:
        return checked(client, workers=workers, seconds=2 * seconds)
    except BaseException:
        client.close()
        raise


def checked(client: Client, *, workers: int = 1, seconds: float = 2 * ANSWER) -> Client:
    """Return a client once it has `workers` workers, all with this version of fstcrf.

    Raises
    ------
    ClusterError
        As for `connected`.
    """
    try:
        client.wait_for_workers(workers, timeout=seconds)
    except TimeoutError:
        known = client.scheduler_info(n_workers=-1)
        here, address = len(known["workers"]), known["address"]
        raise ClusterError(
            f"the scheduler at {address} has {here} worker{'s' * (here != 1)}, {workers} "
            f"{'is' if workers == 1 else 'are'} needed: start them by 'dask worker {address}'"
        ) from None
    check_workers(client)
    return client


def check_workers(client: Client) -> None:
    """Check that every worker has this version of fstcrf.

    Raises
    ------
    ClusterError
        A worker has another version, or lacks fstcrf; the message names its address and both
        versions.
    """
    # A function that workers have without fstcrf.
    found = client.run(pkgutil.resolve_name, _NAME, on_error="return")
    odd = sorted((address, told) for address, told in found.items() if told != VERSION)
    for address, told in odd:
        reason = " ".join(str(told).split())
        there = f"has fstcrf {told}" if isinstance(told, str) else f"has no fstcrf ({reason})"
        more = f"; {len(odd)} of {len(found)} workers differ" if len(odd) > 1 else ""
        raise ClusterError(f"worker {address} {there}, here is {VERSION}: install the same{more}")


def _quiet() -> None:
    for name in logging.root.manager.loggerDict:
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
