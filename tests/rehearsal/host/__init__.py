"""The rehearsal host: Debian with systemd on this machine, made, reached, thrown away."""
