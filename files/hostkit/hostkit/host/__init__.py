"""The machine: processes, units, memory, disks, network, and where everything lies on it."""
