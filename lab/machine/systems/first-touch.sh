# First touch: memory stays where it was allocated.
start() { :; }
