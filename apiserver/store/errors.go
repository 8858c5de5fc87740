package store

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/storage"
)

// Messages of errors for resource versions that are compacted. The first sentences are those of
// kube-apiserver, since some clients look for them. Only continueExpired has a token to continue
// with.
const (
	listExpired     = "The resourceVersion for the provided list is too old."
	continueExpired = "The provided continue parameter is too old to display a consistent list result. " +
		"Start the list again, or go on with the continue token of this response. The rest of the list is " +
		"then as of now, so that what was created, changed or deleted in the meantime may show up in it or not."
)

// versionOnCreate is upstream's error for a new object that has a resource version, as an error of the
// client.
type versionOnCreate struct{ *apierrors.StatusError }

var errVersionOnCreate = versionOnCreate{apierrors.NewBadRequest(apistorage.ErrResourceVersionSetOnCreate.Error())}

func (versionOnCreate) Unwrap() error { return apistorage.ErrResourceVersionSetOnCreate }

// fromBackend translates an error of the backend for a key to one that the registry knows, or
// returns it as it is. Only a create can end in a conflict: updates and deletions retry.
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
	case errors.Is(err, storage.ErrFenced):
		return apierrors.NewServiceUnavailable("the server was reset")
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within requested timeout - %s", err), 0)
	default:
		return err
	}
}

// continueTooOld returns the error for a continue token whose revision is compacted. It has a token
// that continues from start at the latest revision.
func continueTooOld(start, path string) error {
	const latest = -1
	token, err := apistorage.EncodeContinue(start, path, latest)
	if err != nil {
		return apierrors.NewResourceExpired(listExpired)
	}
	expired := apierrors.NewResourceExpired(continueExpired)
	expired.ErrStatus.ListMeta.Continue = token
	return expired
}

// causeReset is the cause of an expired watch if the server was reset. By this, the caches of our runtime
// tell a server that they have to list again at once from one that they have to list less often.
const causeReset metav1.CauseType = "ServerReset"

// watchTooOld returns the error of a watch if its next events are compacted, because of cause.
func watchTooOld(revision, oldest uint64, cause error) error {
	expired := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, oldest))
	if errors.Is(cause, storage.ErrReset) {
		expired.ErrStatus.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: causeReset, Message: "the server was reset"}}}
	}
	return expired
}

// status returns the Status of an error, for the last event of a watch.
func status(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	s := known.Status()
	return &s
}
