"""Who runs what when: selection, batches, strategies, blocks, handlers."""
