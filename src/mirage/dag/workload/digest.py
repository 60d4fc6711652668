"""Digests of job templates: equal only where every stage and every measured duration is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from mirage.dag.workload.templates import JobTemplate

_SHOWN = 16
"""Hexadecimal digits of a digest that are shown."""


def templates_digest(templates: Sequence[JobTemplate]) -> str:
    """Number and ordered digest of templates, as ``154 kinds of jobs, 8c5e...``."""
    whole = hashlib.sha256()
    for template in templates:
        whole.update(repr((template.name, template.edges, len(template.stages))).encode())
        for stage in template.stages:
            whole.update(repr(stage.tasks).encode())
            for wave in (stage.fresh_ms, stage.first_ms, stage.rest_ms):
                for level in sorted(wave):
                    whole.update(repr((level, len(wave[level]))).encode() + wave[level].astype("<i8").tobytes())
                whole.update(b";")
    return f"{len(templates)} kinds of jobs, {whole.hexdigest()[:_SHOWN]}"
