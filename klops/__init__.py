"""klops: operations and lifecycle of 8-card Kunlunxin P800 inference hosts."""

__version__ = "0.1.0"
