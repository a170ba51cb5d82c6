"""A package ``torch`` for ranks of a rehearsal host: tensors without content, cards without hardware."""
