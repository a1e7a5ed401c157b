"""One tick: read the messages, build the snapshot, step the laws, publish the table, save the state."""
