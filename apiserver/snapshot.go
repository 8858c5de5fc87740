package apiserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"flyball.dev/storage"
	"flyball.dev/storage/snapshot"
)

// SnapshotPath is the path of a snapshot of the storage. Only members of system:masters may get it, whatever roles
// allow, because it has private keys.
const SnapshotPath = "/flyball/snapshot"

// serveSnapshot writes a snapshot of the latest revision. Writers do not wait for it. A response that is aborted lacks
// the last frame.
func (s *Server) serveSnapshot(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	by, ok := request.UserFrom(ctx)
	if !ok || !slices.Contains(by.GetGroups(), user.SystemPrivilegedGroup) {
		refuse(w, r, errors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("only members of the group %s may get a snapshot, which has private keys", user.SystemPrivilegedGroup)))
		return
	}
	page, err := s.options.Storage.Range(ctx, storage.Query{})
	if err != nil {
		refuse(w, r, errors.NewInternalError(err))
		return
	}
	taken := time.Now()
	records, err := snapshot.Expiring(ctx, s.options.Storage, page.Records)
	if err != nil {
		refuse(w, r, errors.NewInternalError(err))
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := snapshot.Write(untilDone{ctx, w}, snapshot.Header{Revision: page.Revision, Taken: taken}, records); err != nil {
		panic(http.ErrAbortHandler)
	}
}

// untilDone is a writer that fails when a context is done.
type untilDone struct {
	ctx context.Context
	w   http.ResponseWriter
}

func (u untilDone) Write(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}
