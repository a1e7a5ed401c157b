"""The command `steelyard`: what an operator types. `command` is its entry; a subcommand a file.

`views` (pure) says how a document of the REST API looks in a terminal, `client` asks for it.
"""

from steelyard_controller.cli.command import main

__all__ = ["main"]
