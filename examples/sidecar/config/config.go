// Package config holds the manifests of the sidecar example. That of the webhook is generated from
// the marker in internal/webhook; a cluster needs it together with a Service, the CA bundle and the
// selector of main.go, which kustomize adds.
package config

import "embed"

// Files are the manifests.
//
//go:embed webhook samples
var Files embed.FS
