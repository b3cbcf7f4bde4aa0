"""Where the files of a machine come from: a disk, an archive, or a record of what was read."""
