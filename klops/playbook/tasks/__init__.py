"""One task on one host: render, look ahead, carry out, judge, keep."""
