"""Registration: how a server declares itself at a controller (--register), in a thread of its own."""
