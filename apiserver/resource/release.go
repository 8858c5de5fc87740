package resource

// Release is the release of Kubernetes that the server serves, and of the k8s.io libraries.
const Release = "1.37.2"
