package store

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apistorage "k8s.io/apiserver/pkg/storage"

	"flyball.dev/storage"
)

// maxCorrupt is the largest number of corrupt objects that the error of a list names.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.maxCorruptObjErrsToAggregate
const maxCorrupt = 100

// corrupt returns the error for a record that cannot be decoded.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.corruptObjectError
func corrupt(r *storage.Record, err error) error {
	return apistorage.NewCorruptObjError(r.Key, fmt.Errorf("object not decodable revision=%d: %w", r.Revision, err))
}

// deletable returns the object to validate a deletion with, or nil if the object is corrupt as expected. If the caller
// expects a corrupt object and finds a valid one, the object must be deleted as usual, with its finalizers and
// preconditions.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.store.getState
func (s *Store) deletable(r *storage.Record, expectCorrupt bool) (runtime.Object, error) {
	if expectCorrupt {
		if _, err := s.read(r); err == nil {
			return nil, apistorage.NewInvalidObjError(r.Key,
				"unsafe deletion is not allowed because the object is decodable from storage")
		}
		return nil, nil
	}
	o, err := s.object(r)
	if err != nil {
		return nil, err
	}
	return o.shallow(), nil
}

// listCorrupt returns the error of a list with corrupt objects. The error names the objects, so that a user can delete
// them.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.aggregatedStorageError.NewAPIStatusError
func (s *Store) listCorrupt(errs []error) error {
	status := storeReadError(fmt.Sprintf("failed to read one or more %s from the storage: %v",
		strings.Trim(s.prefix, "/"), errs[0]))
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
	if len(errs) == maxCorrupt {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany,
			Message: "too many errors, the list is truncated"})
	}
	status.ErrStatus.Details = &metav1.StatusDetails{Name: "list", Causes: causes}
	return status
}

// unreadable returns the error of a watch that cannot decode the previous object of an event.
//
//upstream:k8s.io/apiserver/pkg/storage/etcd3.watcher.transformIfCorruptObjectError
//upstream:k8s.io/apiserver/pkg/storage/etcd3.interpretWatchError
func unreadable(e *storage.Event, err error) error {
	if e.Type != storage.Deleted {
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
