"""One self-contained HTML page for a result or a benchmark: ``write_report``."""

from .page import write_report

__all__ = ["write_report"]
