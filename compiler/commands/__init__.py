"""What each command does; returns the exit code."""
