package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/features"
	apistorage "k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"flyball.dev/storage"
)

// maxCorrupt is the largest number of corrupt objects that the error of a list names.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.maxCorruptObjErrsToAggregate
const maxCorrupt = 100

// corruptError says why a record is corrupt. The revision is zero if the value cannot be decrypted, as in kube-apiserver.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.corruptObjectError
type corruptError struct {
	problem  string
	revision uint64
	err      error
}

// The problems of records.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.typeToMessage
const (
	untransformable = "data from the storage is not transformable"
	undecodable     = "object not decodable"
)

func (e *corruptError) Error() string {
	return fmt.Sprintf("%s revision=%d: %v", e.problem, e.revision, e.err)
}

func (e *corruptError) Unwrap() error { return e.err }

// tellsCorrupt reports whether reads tell corrupt records from other failures, so that users can delete them. Without the
// feature gate, a list ends at the first record that it cannot read, and nobody can delete the record.
func tellsCorrupt() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
}

// asCorrupt returns the reason why the record of an error is corrupt.
func asCorrupt(err error) (*corruptError, bool) {
	if !tellsCorrupt() {
		return nil, false
	}
	return errors.AsType[*corruptError](err)
}

// corrupt returns the error of reads for a record that is corrupt.
func corrupt(r *storage.Record, err *corruptError) error {
	return apistorage.NewCorruptObjError(r.Key, err)
}

// stateError returns the error of an update or a deletion for an error of a read.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.getState
func stateError(err error) error {
	var known *corruptError
	switch {
	case !errors.As(err, &known):
		return err
	case known.problem == untransformable:
		return apistorage.NewInternalError(known)
	}
	return known
}

// deletable returns the object to validate a deletion with, or nil if the object is corrupt as expected. If the caller
// expects a corrupt object and finds a valid one, the object must be deleted as usual, with its finalizers and
// preconditions.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.getState
func (s *Store) deletable(ctx context.Context, r *storage.Record, expectCorrupt bool) (runtime.Object, error) {
	if expectCorrupt && tellsCorrupt() {
		_, err := s.read(ctx, r)
		if err == nil {
			return nil, apistorage.NewInvalidObjError(r.Key,
				"unsafe deletion is not allowed because the object is decodable from storage")
		}
		if ctx.Err() != nil {
			return nil, ctx.Err() // the end of the request is no corruption
		}
		if _, ok := asCorrupt(err); !ok {
			return nil, err
		}
		return nil, nil
	}
	o, err := s.object(ctx, r)
	if err != nil {
		return nil, stateError(err)
	}
	return o.shallow(), nil
}

// listError returns the error of a list: of the corrupt objects, which it names so that a user can delete them, and of what
// has ended the list, or nil.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.aggregatedStorageError.NewAPIStatusError
func (s *Store) listError(errs []error, aborted error) error {
	if len(errs) == 0 {
		return aborted
	}
	status := storeReadError(fmt.Sprintf("failed to read one or more %s from the storage: %v", s.resource, errs[0]))
	if len(errs) > 1 {
		status.ErrStatus.Message += fmt.Sprintf(" (and %d more)", len(errs)-1)
	}
	causes := make([]metav1.StatusCause, 0, len(errs)+1)
	for _, err := range errs {
		var known *apistorage.StorageError
		errors.As(err, &known)
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse,
			Field: known.Key, Message: err.Error()})
	}
	switch {
	case len(errs) == maxCorrupt:
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany,
			Message: "too many errors, the list is truncated"})
	case aborted != nil:
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Message: aborted.Error()})
	}
	status.ErrStatus.Details = &metav1.StatusDetails{Group: s.resource.Group, Kind: s.resource.Resource, Name: "list", Causes: causes}
	return status
}

// unreadable returns the error of a watch that cannot decode the previous object of an event.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.watcher.transformIfCorruptObjectError
//upstream:k8s.io/apiserver/pkg/storage/etcd3.interpretWatchError
func unreadable(e *storage.Event, err error) error {
	if _, ok := asCorrupt(err); !ok || e.Type != storage.Deleted {
		return err
	}
	return storeReadError(fmt.Sprintf("saw a DELETED event, but object data is corrupt - %v", err))
}

func storeReadError(message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonStoreReadError, Message: message,
	}}
}
