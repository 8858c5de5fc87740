// Package config holds the manifests of the AppService example.
package config

import _ "embed"

// CRD is the definition of the kind AppService, generated from api/v1.
//
//go:embed crd/bases/app.example.com_appservices.yaml
var CRD []byte

// Sample is an AppService to begin with.
//
//go:embed samples/app_v1_appservice.yaml
var Sample []byte
