# Memory stays where it was allocated.
start() { :; }
