// Package client reads and writes objects of a Kubernetes API.
//
// A [Client] is a [Reader], a [Writer] and the way to subresources. New makes
// one for a rest.Config. It takes objects in three forms and treats them alike:
// typed ones (*corev1.Pod, or a type of your own that is in the scheme),
// unstructured ones (*unstructured.Unstructured), and those of which only the
// metadata matters (*metav1.PartialObjectMetadata). The last two must say their
// apiVersion and kind.
//
// Every method takes options, which are small values:
//
//	err := c.List(ctx, &pods, client.InNamespace("default"), client.MatchingLabels{"app": "web"})
//	err = c.Delete(ctx, pod, client.GracePeriodSeconds(0), client.DryRunAll)
//
// Errors of the server are those of k8s.io/apimachinery/pkg/api/errors;
// IgnoreNotFound and IgnoreAlreadyExists drop the two that are often none.
//
// # Reading from a cache
//
// With Options.Cache, Get and List are answered from a cache, and writes go to
// the server. What this client has written shows in its reads from the moment
// that the write returned, even before the cache has heard of it from the
// server. A manager's client is made like this. Kinds in CacheOptions.DisableFor
// are read from the server, and so are unstructured objects unless
// CacheOptions.Unstructured says otherwise.
//
// # Concurrency and ownership
//
// A Client is safe for concurrent use and starts no goroutines; a watch has one
// until it is stopped. An object that is passed to a method belongs to it until
// it returns. What a cache returned is a copy, unless UnsafeDisableDeepCopy was
// given.
package client
