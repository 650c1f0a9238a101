"""One fault in each file; `glidepath.sim.fault` says what a fault is and names them all."""
