// Package schema derives OpenAPI definitions and merge schemas from Kubernetes' Go types.
//
// It uses reflection: names are from OpenAPIModelName, descriptions from SwaggerDoc, merge keys
// from struct tags. What only the comments of k8s.io/api have is in exceptions.txt. The
// descriptions of CustomResourceDefinitions, whose types have no SwaggerDoc, are upstream's.
//
// A definition is built on first use, together with those it refers to, and cached for the life of
// the process. All functions are safe for concurrent use. Callers must not modify the results.
package schema
