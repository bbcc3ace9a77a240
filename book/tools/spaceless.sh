#!/bin/sh
# Run a command, whose first word is a path below this folder, by way of a path without spaces.
# torch.compile hands the path of torch's libraries to the linker unquoted, so it fails below a
# path with spaces; a link to this folder gives Python another name for the same place.
set -eu
case $PWD in
*' '*)
    folder=$(mktemp -d)
    trap 'rm -f "$folder/checkout"; rmdir "$folder"' EXIT
    ln -s "$PWD" "$folder/checkout"
    program=$1
    shift
    "$folder/checkout/$program" "$@"
    ;;
*)
    "$@"
    ;;
esac
