// Package client reads and writes objects of a Kubernetes API.
//
// A [Client] is a [Reader], a [Writer] and a client for subresources. New creates one for a
// rest.Config. It supports three representations of objects: typed (*corev1.Pod, or any type in the
// scheme), unstructured (*unstructured.Unstructured) and metadata-only
// (*metav1.PartialObjectMetadata). The last two must have their apiVersion and kind set.
//
// Every method has options:
//
//	err := c.List(ctx, &pods, client.InNamespace("default"), client.MatchingLabels{"app": "web"})
//	err = c.Delete(ctx, pod, client.GracePeriodSeconds(0), client.DryRunAll)
//
// Errors of the server have the types of k8s.io/apimachinery/pkg/api/errors; IgnoreNotFound and
// IgnoreAlreadyExists ignore two of them.
//
// # Reading from a cache
//
// With Options.Cache, Get and List read from a cache, and writes go to the server. The client of a
// manager is such a client. Kinds in CacheOptions.DisableFor are read from the server, and so are
// unstructured objects unless CacheOptions.Unstructured is set.
//
// # Reading one's own writes
//
// Once a write through a client with a cache of package cache has returned, the reads
// of all clients with that cache include it. No read waits for the watch. If the
// server's response shows the result of the write, reads return it from memory; if not, the next
// read of the object, or of a list that may include it, goes to the server, and later reads return
// that result from memory:
//
//	write                                              next read, if the watch has not caught up
//	Create, Update, Patch, Apply, Status() of the      from memory, as typed and as
//	object, typed                                      metadata; as unstructured, from the server
//	the same, unstructured                             from memory
//	Patch of metadata only                             from memory as metadata; else from the server
//	Status().Patch of metadata only                    from the server
//	Delete, and the Update that removes the last       from memory: not found; or terminating, as
//	finalizer                                          after a Patch
//	Delete, if the response has no UID                 from the server
//	DeleteAllOf                                        from the server, if the response is a list
//	SubResource("scale") and others of a kind of       from the server
//	their own: Update, Patch, Apply
//	SubResource(...).Create, if the response is a      from the server
//	Status, as of an eviction or a binding
//	any of them, if the cache has a field selector     from the server
//	for more than name and namespace
//	any of them, in another API version of the kind    from the server
//
// "From the server" is a list with the selectors of the watch: of the one name, or, for more than
// eight objects, of the namespace or of all that is watched. It needs no permission that the watch
// does not need. If it fails, so does the read; but if it is forbidden, the read returns what the
// watch has delivered. The metric flyball_cache_live_reads_total counts these lists.
//
// Not included are:
//
//   - writes of other processes and of clients without the cache, and changes that the
//     server or controllers make to other objects in consequence of a write;
//   - writes that returned an error, such as a timeout, but took effect;
//   - the same object in another API group, as for Events;
//   - Delete of an object that is not in the cache yet, if neither the object passed
//     to Delete nor the response has its resource version;
//   - DeleteAllOf, if the response has no list of the objects;
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
// A Client is safe for concurrent use and starts no goroutines; a watch has one until it is
// stopped. A method owns the objects that are passed to it until it returns. Objects that are read
// from a cache are copies, unless UnsafeDisableDeepCopy is used.
package client
