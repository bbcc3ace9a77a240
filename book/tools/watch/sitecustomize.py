"""Note what a chapter's execution reads: loaded by every Python process of it, workers included.

`book.tools.runner` puts this folder on the path and names the list and the repository. Python runs
a file of this name before anything else; one that the environment has of its own is not run then.
"""

import os
import sys
from importlib.util import source_from_cache


def watch(log, root):
    """Write to `log`, one to a line, each file below `root` that this process opens to read.

    A file that is absent is noted too, because it was asked for. A folder below `data/` whose
    contents are listed ends with a slash. A module that Python takes from its cache counts as its
    source.
    """
    start, data, seen = f"{root}{os.sep}", os.path.join(root, "data"), set()
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(event, arguments):
        if event not in ("open", "os.listdir", "os.scandir"):
            return
        if not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        if event != "open":
            path = f"{path}/" if f"{path}{os.sep}".startswith(f"{data}{os.sep}") else ""
        elif arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        elif path.endswith(".pyc"):
            try:
                path = source_from_cache(path)
            except ValueError:
                return
        if path.startswith(start) and path not in seen:
            seen.add(path)
            os.write(out, f"{path}\n".encode())

    sys.addaudithook(note)


if "COEFDYN_OPENED" in os.environ:
    watch(os.environ["COEFDYN_OPENED"], os.environ["COEFDYN_ROOT"])
