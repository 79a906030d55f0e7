"""Does a change of environment hold on a fleet? Pure statistics over nodes, devices and metrics."""
