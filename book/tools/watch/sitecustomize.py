"""Note what a chapter's execution reads: loaded by every Python process of it, workers included.

`book.tools.runner` puts this folder on the path and names the list and the repository. Python runs
a file of this name before anything else; one that the environment has of its own is not run then.
"""

import os
import sys
from importlib.util import source_from_cache


def watch(log, root):
    """Write to `log`, one to a line, each file below `root` that this process opens to read.

    A file that is absent is noted too, whether it was opened or only asked for (`os.stat`, which
    `exists` calls), because what is there later would be read. A folder below `data/` whose
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

    found = os.stat

    def stat(path, *arguments, **options):
        try:
            return found(path, *arguments, **options)
        except FileNotFoundError:
            note("open", (path, None, os.O_RDONLY))
            raise

    sys.addaudithook(note)
    os.stat = stat  # Python tells no hook of it; an import of a module does not go through here
    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        able.add(stat)


if "COEFDYN_OPENED" in os.environ:
    watch(os.environ["COEFDYN_OPENED"], os.environ["COEFDYN_ROOT"])
