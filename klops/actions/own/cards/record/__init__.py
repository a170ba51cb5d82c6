"""verdict.json, baseline.json and notes: what they say of a host, and what is written."""
