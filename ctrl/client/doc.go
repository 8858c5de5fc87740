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
// the server. A manager's client is made like this. Kinds in
// CacheOptions.DisableFor are read from the server, and so are unstructured
// objects unless CacheOptions.Unstructured says otherwise.
//
// # Reading one's own writes
//
// Once a write through a client with a cache of package cache has returned, the reads
// of all clients with that cache include it. No read waits for the watch. If the
// server's answer shows the result of the write, reads take it from memory; if not,
// the next read of the object, or of a list that it may be in, asks the server, and
// later reads take that result from memory:
//
//	write                                              next read, if the watch has not caught up
//	Create, Update, Patch, Apply, Status() of the      from memory, in the same form and as
//	object, typed                                      metadata; as unstructured, from the server
//	the same, unstructured                             from memory, in all forms
//	Patch of metadata only                             from memory as metadata; else from the server
//	Status().Patch of metadata only                    from the server
//	Delete, and the Update that removes the last       from memory: not found; or terminating, as
//	finalizer                                          after a Patch
//	Delete that is answered without a UID              from the server
//	DeleteAllOf                                        from the server, if it answers with a list
//	SubResource("scale") and others of a kind of       from the server
//	their own: Update, Patch, Apply
//	SubResource(...).Create that is answered with a    from the server
//	Status, as an eviction or a binding is
//	any of them, if the cache has a field selector     from the server
//	for more than name and namespace
//	any of them, in another API version of the kind    from the server
//
// "From the server" is a list with the selectors of the watch: of the one name, or, for
// more than eight objects, of the namespace or of all that is watched. It needs no
// permission that the watch does not need. If it fails, so does the read; but if the
// server refuses it, the read returns what the watch has delivered. The metric
// flyball_cache_live_reads_total counts these lists.
//
// Not included are:
//
//   - writes of other processes and of clients without the cache, and changes that the
//     server or controllers make to other objects in consequence of a write;
//   - writes that returned an error, such as a timeout, but took effect;
//   - the same object in another API group, as for Events;
//   - Delete of an object that is not in the cache yet, if neither the object passed
//     to Delete nor the answer has its resource version;
//   - DeleteAllOf that is answered without a list of the objects;
//   - resource versions that are not numbers, which no Kubernetes API server has;
//   - objects for which the cache's transform fails, or removes the resource version;
//   - writes that the watch has not delivered after five minutes: reads then see
//     what it has delivered;
//   - dry runs, and reads and writes with DisableReadYourWritesConsistency.
//
// Informers' event handlers are notified of what the watch delivers, and of nothing else.
//
// A program's own wrapper of a cache must embed it in a struct, so that the client
// finds it. Otherwise New logs that reads may be stale, or fails if
// CacheOptions.EnableReadYourWritesConsistency is set.
//
// # Concurrency and ownership
//
// A Client is safe for concurrent use and starts no goroutines; a watch has one
// until it is stopped. An object that is passed to a method belongs to it until
// it returns. What a cache returned is a copy, unless UnsafeDisableDeepCopy was
// given.
package client
