#!/bin/sh
# Make the virtual environment named by the first argument, with the first Python from 3.11 to 3.13
# that is found; PYTHON=... chooses one. One that is there stays; a missing pip is added, and one
# whose Python does not run is emptied first, as with "anew" as a second argument.
set -eu
target=$1

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

# A Python that was replaced or removed leaves a dead link, which venv would keep.
clear=
if [ "${2:-}" = anew ] || { [ -d "$target" ] && ! "$target/bin/python" -c '' >/dev/null 2>&1; }; then
    clear=--clear
elif [ -d "$target" ] && "$target/bin/python" -c 'import pip' >/dev/null 2>&1; then
    exit 0
fi

found=
seen=
for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python; do
    if fits "$candidate"; then
        found=$candidate
        break
    fi
    version=$("$candidate" --version 2>/dev/null) && seen="$seen $candidate is $version;"
    # A Python that was asked for by name is the one to judge.
    if [ -n "${PYTHON:-}" ]; then break; fi
done

if [ -z "$found" ]; then
    echo "The book needs Python 3.11, 3.12 or 3.13, and none was found.${seen:+ Found:$seen}" >&2
    echo "Install one, or name one: make PYTHON=/path/to/python3.12 book" >&2
    exit 1
fi
if ! "$found" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    echo "$found cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv" >&2
    exit 1
fi
echo "making $target with $("$found" --version)"
"$found" -m venv $clear "$target"
