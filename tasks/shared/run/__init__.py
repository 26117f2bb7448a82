"""How pyinfra itself runs here: refusals, exit codes, SSH, sudo, and facts asked together."""
