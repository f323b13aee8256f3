"""What no suite covers: looked at now and then, beside the audits."""
