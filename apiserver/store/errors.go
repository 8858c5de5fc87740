package store

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/storage"
)

// What users are told when they ask for a past that is no longer known. The first sentences are those of
// other servers, as some clients look for them. Only the last comes with a token to go on with.
const (
	listExpired     = "The resourceVersion for the provided list is too old."
	continueExpired = "The provided continue parameter is too old to display a consistent list result. " +
		"Start the list again, or go on with the continue token of this response. The rest of the list is " +
		"then as of now, so that what was created, changed or deleted in the meantime may show up in it or not."
)

// fromBackend turns an error of the backend about a key into one that the registry knows. Others pass. Only
// a creation can end in a conflict: an update and a deletion try again.
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
	default:
		return err
	}
}

// continueTooOld is the answer to a continue token whose revision is compacted. It has a token that goes
// on from start at the latest revision.
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

// watchTooOld is what a watch ends with that wants events from before the history, or has fallen behind
// it.
func watchTooOld(revision, oldest uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, oldest))
}

// status is an error as the last event of a watch.
func status(err error) *metav1.Status {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	s := known.Status()
	return &s
}
