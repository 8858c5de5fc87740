// Package mirror holds our code beside the Kubernetes code that it mirrors. Only modules for tests may import k8s.io/kubernetes.
package mirror
