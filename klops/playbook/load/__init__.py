"""From files to plays and tasks: keywords, inheritance, all mistakes at once."""
