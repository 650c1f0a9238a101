"""Jobs in pods: sets of ranks come in, pods and what became of them go out. It refuses to choose nodes."""
