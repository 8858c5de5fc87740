// Package config holds the manifests of the ApplicationNamespace example. The definition and the role
// are generated from the markers in api and internal/controller. The policy refuses deletions with
// which an ApplicationNamespace could not retain its Namespace; on a cluster, apply it with the
// definition.
package config

import "embed"

// Files are the manifests.
//
//go:embed crd policy rbac samples
var Files embed.FS
