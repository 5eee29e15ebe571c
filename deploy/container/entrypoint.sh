#!/bin/sh
# Starts the server in a container. Arguments go to it as they are; without any it serves what
# OMNIGRAPH_CLUSTER names, the folder or storage root of a cluster, or what OMNIGRAPH_STORE names,
# one or several graphs with blanks between them, each as URI or URI=ID.
set -eu
if [ $# -eq 0 ]; then
    if [ -n "${OMNIGRAPH_CLUSTER:-}" ]; then
        set -- --cluster "$OMNIGRAPH_CLUSTER"
    elif [ -z "${OMNIGRAPH_STORE:-}" ]; then
        echo "usage: set OMNIGRAPH_CLUSTER to a cluster, or OMNIGRAPH_STORE to the graphs to" \
            "serve, as URI[=ID], or give the arguments of omnigraph serve" >&2
        exit 64
    fi
    for store in ${OMNIGRAPH_STORE:-}; do
        set -- "$@" --store "$store"
    done
fi
unset OMNIGRAPH_CLUSTER OMNIGRAPH_STORE # they are no settings of the program
: "${OMNIGRAPH_BIND:=0.0.0.0:8080}"
export OMNIGRAPH_BIND
exec omnigraph-server "$@"
