"""Ports for the lab's daemons."""

from steelyard_loadtest.machine.network import free_ports


def test_two_programs_that_ask_before_either_listens_get_different_ports() -> None:
    asked = [free_ports(2) for _ in range(20)]
    # One pair in six thousand overlaps by chance.
    assert len({ports[0] for ports in asked}) > 15
    assert all(len(set(ports)) == 2 for ports in asked)
