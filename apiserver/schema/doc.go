// Package schema derives OpenAPI definitions and merge schemas from Kubernetes' Go types.
//
// It uses reflection: names are from OpenAPIModelName, descriptions from SwaggerDoc, merge keys
// from struct tags. Markers in the comments of k8s.io/api are listed in exceptions.txt. The types of
// CustomResourceDefinitions have no SwaggerDoc; they use the definitions of k8s.io/apiextensions-apiserver.
//
// A definition is built on first use, together with those it refers to, and cached for the life of
// the process. All functions are safe for concurrent use. Callers must not modify the results.
package schema
