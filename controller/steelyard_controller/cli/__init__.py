"""The command `steelyard`, for operators.

subcommands                     its entry
*_commands, *_command           the subcommands; they ask with `api_client`
views (pure)                    a document of the REST API as lines
terminal                        styles, tables, the full screen
"""

from steelyard_controller.cli.subcommands import main

__all__ = ["main"]
