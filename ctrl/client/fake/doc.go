// Package fake has a client for tests. Its objects are in memory.
//
//	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(initial...).Build()
//
// There are two clients behind one builder.
//
// By default it is an object store with the rules that suites written for controller-runtime's
// fake client expect. It needs no CustomResourceDefinitions: it has every kind of the scheme, and
// others as unstructured and metadata-only objects. Building one takes microseconds. It starts no
// goroutine and needs not be closed. Patches, managed fields and server-side apply are done by the
// functions that an API server uses. It differs from one in what those suites assert:
//
//   - Each object has a resource version of its own. An initial object has 999, a
//     new one is 1, and every update raises it by one, even if nothing changes.
//   - It sets no UID, creation timestamp and generation, and no defaults. It validates nothing but
//     the presence of a name: namespaces need not exist, and objects of all kinds can be with or
//     without one.
//   - A dry run does nothing and succeeds. Deletions have no grace period and are not propagated,
//     unless the builder has the option WithGarbageCollection.
//   - A list is always complete and has no resource version. Field selectors need an index.
//   - A watch begins with the next write. Its event is in the channel when the write returns.
//   - A new object keeps its status. An initial one keeps all that it has, even if it is invalid.
//   - Of subresources, there are status; scale, for the built-in kinds that have one; the eviction
//     of pods, which always succeeds; and the token of service accounts, which is not valid.
//     Updates of all others are updates of the status, and patches are patches of the object.
//   - The RESTMapper knows nothing.
//
// With [ClientBuilder.WithServer] it is the client of an API server, such as one that runs in the
// process, and differs from that in nothing.
//
// All clients are safe for concurrent use. An object that is passed or returned is not shared.
//
// The default client links no server.
package fake
