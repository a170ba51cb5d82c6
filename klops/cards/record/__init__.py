"""What is kept on a host about cards, and how long it is good. Pure."""
