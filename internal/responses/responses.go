// Package responses lets a client decode less of the responses to its writes.
package responses

import "context"

// versionOnly is the key in a context from [VersionOnly].
type versionOnly struct{}

// VersionOnly returns a context for writes of objects that nobody reads afterwards. From the response, a client of package
// ctrl/client sets only the resource version of the object. A cache learns of such a write from its watch alone.
func VersionOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, versionOnly{}, true)
}

// IsVersionOnly reports whether a context is from [VersionOnly].
func IsVersionOnly(ctx context.Context) bool { return ctx.Value(versionOnly{}) != nil }
