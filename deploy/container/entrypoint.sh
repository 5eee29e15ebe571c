#!/bin/sh
# Starts the server in a container. Arguments go to it as they are; without any it serves what
# OMNIGRAPH_STORE names, one or several graphs with blanks between them, each as URI or URI=ID.
set -eu
if [ $# -eq 0 ]; then
    if [ -z "${OMNIGRAPH_STORE:-}" ]; then
        echo "usage: set OMNIGRAPH_STORE to the graphs to serve, as URI[=ID], or give the" \
            "arguments of omnigraph serve" >&2
        exit 64
    fi
    for store in $OMNIGRAPH_STORE; do
        set -- "$@" --store "$store"
    done
fi
unset OMNIGRAPH_STORE # it is no setting of the program
: "${OMNIGRAPH_BIND:=0.0.0.0:8080}"
export OMNIGRAPH_BIND
exec omnigraph-server "$@"
