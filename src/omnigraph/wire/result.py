"""The base of results, under its former name."""

from omnigraph.result import Result as Result
