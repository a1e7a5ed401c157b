"""What measurements need of this machine: programs and their versions, processes, a private network."""
