"""What a WSL2 machine is told by wsl.conf, .wslconfig and Windows itself."""
