package resource

// Release is the Kubernetes release whose API is served: that of the k8s.io libraries.
const Release = "1.37.2"
