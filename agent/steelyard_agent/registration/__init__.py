"""Registration: a server declares itself at a controller (--register), in its own thread."""
