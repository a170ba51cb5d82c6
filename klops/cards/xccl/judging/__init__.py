"""From outcomes of tests to a verdict on cards, links, groups and the set-up."""
