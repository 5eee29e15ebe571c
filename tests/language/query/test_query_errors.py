from __future__ import annotations

import pytest

from language.query.query_case_files import ERRORS
from omnigraph.errors import CompileError
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText


@pytest.mark.parametrize("case", ERRORS, ids=lambda case: case.title)
def test_every_mistake_is_reported_at_its_position(case):
    with pytest.raises(CompileError) as raised:
        parse_query_file(SourceText(case.text, "q.gq"))
    case.check(raised.value.diagnostics)
