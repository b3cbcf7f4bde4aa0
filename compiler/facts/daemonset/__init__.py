"""The Kubernetes way to collect facts: a DaemonSet whose pods print the files of their nodes."""
