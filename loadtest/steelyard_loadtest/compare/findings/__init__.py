"""What the five sources found, and whether it reproduced here. Pure."""
