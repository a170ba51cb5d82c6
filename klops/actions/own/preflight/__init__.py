"""``klops.preflight``: is a host fit for what its settings ask?"""
