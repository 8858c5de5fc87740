package resource

// Release is the Kubernetes release that the server implements, and the release of the k8s.io libraries.
const Release = "1.37.2"
