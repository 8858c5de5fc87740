// Package schema describes Kubernetes' Go types: as OpenAPI definitions, as the schemas by which objects
// merge, and as the fields that whoever creates an object comes to own.
//
// Everything is read from the types themselves by reflection: names from OpenAPIModelName, texts from
// SwaggerDoc, merge keys from struct tags. What the tags do not say — it stands only in the comments of
// k8s.io/api — is in exceptions.txt, and the texts of CustomResourceDefinitions, which have no SwaggerDoc,
// are upstream's.
//
// A type is described when it is first asked for, together with what it refers to, and then kept for
// the life of the process. Every function may be called from any number of goroutines, and callers
// must not change what they get.
package schema
