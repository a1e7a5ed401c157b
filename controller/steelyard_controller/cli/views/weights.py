"""A weight table as it was published. Pure."""

from steelyard_controller.cli.documents import Table
from steelyard_controller.cli.look import Look
from steelyard_controller.cli.views import peers


def of_table(document: Table, look: Look) -> list[str]:
    """Return the table's order and a line for each peer."""
    about = (
        f"{document.upstream}  table {document.term}.{document.generation}, "
        f"law {document.law}, picker {document.picker}"
    )
    return [look.line(about, "bold"), *peers.of_table(document, look)]
