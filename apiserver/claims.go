package apiserver

import (
	"context"
	"errors"
	"time"

	"flyball.dev/apiserver/kinds/core"
	"flyball.dev/storage"
)

// claimsPath is the path of the claims. kube-apiserver ignores it.
const claimsPath = "/flyball/claims/"

// claims implements [core.Claims] by records that expire.
type claims struct{ storage storage.Store }

// claims returns the claims of the servers that share the storage, or nil if there is one server.
func (o *Options) claims() core.Claims {
	if !o.Shared {
		return nil
	}
	return claims{o.Storage}
}

// Claim implements [core.Claims].
func (c claims) Claim(ctx context.Context, name, owner string) (bool, error) {
	w := storage.Write{Key: claimsPath + name, Value: []byte(owner), If: storage.Absent, Expires: time.Now().Add(RequestTimeout)}
	for {
		current, err := c.storage.Put(ctx, w)
		switch {
		case err == nil:
			return true, nil
		case !errors.Is(err, storage.ErrConflict):
			return false, err
		case current != nil && string(current.Value()) != owner:
			return false, nil
		}
		w.If = storage.Absent
		if current != nil { // the owner has it, and needs it for as long as before
			w.If = current.Revision
		}
	}
}

// Unclaim implements [core.Claims].
func (c claims) Unclaim(ctx context.Context, name, owner string) {
	current, err := c.storage.Get(ctx, claimsPath+name)
	if err == nil && string(current.Value()) == owner {
		_, _ = c.storage.Delete(ctx, current.Key, current.Revision) // else it expires
	}
}
