// Package schema derives OpenAPI definitions and merge schemas from the Go types of Kubernetes.
//
// It uses reflection: names come from OpenAPIModelName, descriptions from SwaggerDoc, and merge keys from struct tags.
// exceptions.txt lists the markers in the comments of k8s.io/api. The types of CustomResourceDefinitions have no
// SwaggerDoc, so the package uses their definitions in k8s.io/apiextensions-apiserver.
//
// A definition is built on first use, together with the definitions that it refers to, and cached for the life of the
// process. Its OpenAPI schemas are cached until the next collection of garbage, because only documents need them. All
// functions are safe for concurrent use. Callers must not modify the results.
//
// The merge schemas of built-in kinds do not come from client-go's embedded YAML, which takes long to parse. A test
// compares all schemas with upstream's.
package schema
