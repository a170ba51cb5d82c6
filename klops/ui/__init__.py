"""What people and programs see of a run: sinks of events, tables, the JSON of the contract."""
