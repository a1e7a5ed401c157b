"""HAProxy follows the weights too: its agent-check."""
