"""Long tests of reliability: hours of use, killed processes, damaged files, full disks; see
docs/reliability.md."""
