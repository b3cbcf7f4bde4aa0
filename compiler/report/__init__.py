"""Reports: one pure function a format, from findings to text."""
