#!/bin/sh
# Rewrites the hashed lock files from pyproject.toml and the .in files. Run it after changing a dependency.
set -eu
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}
lock() { # lock OUTPUT INPUT...
    out=$1; shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-header --no-annotate --no-emit-index-url --output-file "$out" "$@"
}
lock requirements/bootstrap.txt requirements/bootstrap.in
lock requirements/dev.txt pyproject.toml --extra server --extra spark --extra otel requirements/dev.in
# The runtime lock is a subset of the development lock, so both agree on every version.
lock requirements/runtime.txt pyproject.toml --extra server --extra spark --constraint requirements/dev.txt
# The client of Spark Connect: the runtime with pandas and gRPC, at the same versions otherwise.
lock requirements/connect.txt pyproject.toml --extra connect --constraint requirements/dev.txt
# The peers of the benchmarks, in an environment of their own.
lock requirements/peers.txt requirements/peers.in
# What the embedding provider `local` adds to the runtime, without the requirements of its packages.
lock requirements/local.txt requirements/local.in --no-deps
# What the site is built with, in an environment of its own.
lock requirements/site.txt requirements/site.in
