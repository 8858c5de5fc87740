// Package config holds the manifests of the podguard example. The role is generated from the markers
// in internal/controller.
package config

import "embed"

// Files are the manifests.
//
//go:embed rbac samples
var Files embed.FS
