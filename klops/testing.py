"""What tests of playbooks and actions need: a fake host with scripted replies."""

from klops.remote.base import Completed, Reply
from klops.remote.fake import Call, FakeRemote, UnexpectedCallError, reply

__all__ = ["Call", "Completed", "FakeRemote", "Reply", "UnexpectedCallError", "reply"]
