"""Links to other devices: in memory, or TCP with TLS 1.3, and the channels that share one (`spec/link.md`)."""
