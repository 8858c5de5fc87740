// Package config holds the manifests of the versions example, which are generated from the markers
// of the types, the webhooks and the controllers. On a cluster, kustomize adds a Service and the CA
// bundle to the manifests of the webhooks, and crd/patches to the definition.
package config

import "embed"

// Files are the manifests.
//
//go:embed crd rbac webhook samples
var Files embed.FS
