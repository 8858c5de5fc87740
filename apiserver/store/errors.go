package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/storage"
)

// The messages of kube-apiserver for compacted resource versions. Only an error with inconsistentContinue has a token to
// continue with.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.expired
//upstream:k8s.io/apiserver/pkg/storage/etcd3.continueExpired
//upstream:k8s.io/apiserver/pkg/storage/etcd3.inconsistentContinue
const (
	listExpired     = "The resourceVersion for the provided list is too old."
	continueExpired = "The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter."
	inconsistentContinue = "The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to " +
		"retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - " +
		"objects that were created, modified, or deleted between the time the first chunk was returned and now may " +
		"show up in the list."
)

// versionOnCreate is the error for a new object with a resource version. It makes the plain error of k8s.io/apiserver
// an error of the client.
type versionOnCreate struct{ *apierrors.StatusError }

var errVersionOnCreate = versionOnCreate{apierrors.NewBadRequest(apistorage.ErrResourceVersionSetOnCreate.Error())}

func (versionOnCreate) Unwrap() error { return apistorage.ErrResourceVersionSetOnCreate }

// fromBackend translates an error of the backend for a key to an error that the registry knows, and returns all other
// errors unchanged. Only a create can fail with a conflict, because updates and deletions retry.
func fromBackend(key string, err error) error {
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return apistorage.NewKeyNotFoundError(key, 0)
	case errors.Is(err, storage.ErrConflict):
		return apistorage.NewKeyExistsError(key, 0)
	case errors.Is(err, storage.ErrCompacted):
		return apierrors.NewResourceExpired(listExpired)
	case errors.Is(err, storage.ErrClosed):
		return apierrors.NewServiceUnavailable("the storage is closed")
	case errors.Is(err, storage.ErrNoSpace):
		return noSpace(err)
	case errors.Is(err, storage.ErrFenced):
		return apierrors.NewServiceUnavailable("the server was reset")
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within requested timeout - %s", err), 0)
	default:
		return err
	}
}

// reasonNoSpace is the reason of a write that the storage has no space for. Kubernetes has none.
const reasonNoSpace metav1.StatusReason = "InsufficientStorage"

// noSpace returns the error of a write that the storage has no space for.
func noSpace(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
		Code: http.StatusInsufficientStorage, Reason: reasonNoSpace, Message: err.Error()}}
}

// continueTooOld returns the error for a continue token with a compacted revision. The error has a new token, which
// continues from start at the latest revision.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.handleCompactedErrorForPaging
func continueTooOld(start, path string) error {
	const latest = -1
	token, err := apistorage.EncodeContinue(start, path, latest)
	if err != nil {
		return apierrors.NewResourceExpired(continueExpired)
	}
	expired := apierrors.NewResourceExpired(inconsistentContinue)
	expired.ErrStatus.ListMeta.Continue = token
	return expired
}

// causeReset is the cause of an expired watch if the server was reset. Flyball's caches list again at once after a
// reset, but back off after other expired watches.
const causeReset metav1.CauseType = "ServerReset"

// watchTooOld returns the error of a watch when its next events are compacted because of cause.
//
//upstream:k8s.io/apiserver/pkg/storage/cacher.watchCacheHistory.GetIntervalLocked
func watchTooOld(revision, oldest uint64, cause error) error {
	expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, oldest))
	if errors.Is(cause, storage.ErrReset) {
		expired.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: causeReset, Message: "the server was reset"}}}
	}
	return expired
}

// status returns the Status of an error, for the last event of a watch.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.transformErrorToEvent
func status(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	s := known.Status()
	return &s
}
