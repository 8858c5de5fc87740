// Package config holds the manifests of the batch example. The definition and the role are generated
// from the markers in api and internal/controller.
package config

import "embed"

// Files are the manifests.
//
//go:embed crd rbac samples
var Files embed.FS
