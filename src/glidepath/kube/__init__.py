"""The door to Kubernetes: access, requests, a reflector that follows a list, pods and what they say."""
