// Package controllerruntime is [flyball.dev/ctrl] under the import path of controller-runtime.
//
// A program that imports sigs.k8s.io/controller-runtime runs on Flyball if its go.mod replaces that
// module with this one. Each package here has the exported identifiers of the package of
// flyball.dev/ctrl with the same name: types are aliases, so that values of both import paths can
// be mixed, and functions are forwarded. README.md says what variables can do.
package controllerruntime

//go:generate go run ./internal/generate
