"""klops' own actions: what ``up``, ``down`` and ``status`` are made of."""
